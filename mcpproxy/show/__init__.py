"""Recordings shown: in the terminal, on a page, to agents."""
