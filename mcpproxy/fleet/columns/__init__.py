"""Recordings as tables, and the questions that are asked of them."""
