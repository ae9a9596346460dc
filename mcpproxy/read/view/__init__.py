"""Recordings as calls: what the terminal, the page and the export show."""
