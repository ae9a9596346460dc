"""Calls of a recording: what ``show``, ``demo`` and ``http`` print of it, and a part of it for others."""
