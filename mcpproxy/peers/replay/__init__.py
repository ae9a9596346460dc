"""Replay: a recording replaces the server or the client; two sessions are compared, and joined."""
