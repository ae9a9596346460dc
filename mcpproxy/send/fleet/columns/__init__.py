"""Recordings as tables, and the questions that the tables answer."""
