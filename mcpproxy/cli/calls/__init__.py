"""Calls on the terminal: what ``show``, ``demo`` and ``http`` print of a recording."""
