"""Mutated copies of recorded requests for a live server, and what it does wrong with them."""
