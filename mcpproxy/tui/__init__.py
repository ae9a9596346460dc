"""Recordings in the terminal: sessions, their calls, and what belongs to a call."""
