"""Replay: a recording replaces the server or the client, and two sessions are compared."""
