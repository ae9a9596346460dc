"""Recordings in the formats of other programs, and as a file to send."""
