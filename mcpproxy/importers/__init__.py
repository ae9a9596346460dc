"""Recordings of other tools, read as traces."""
