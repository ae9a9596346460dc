"""Reads recordings of other tools as traces."""
