"""Replay a recorded server for a live client."""
