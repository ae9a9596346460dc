"""Replay a recording in place of the server or of the client; compare two recordings, and join them."""
