"""Replay: a recording stands in for the server or for the client, and two of them are compared."""
