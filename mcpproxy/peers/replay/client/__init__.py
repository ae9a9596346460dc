"""Replay a recorded client against a live server."""
