"""Recordings as files for other programs."""
