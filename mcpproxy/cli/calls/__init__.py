"""Calls of a recording: ``show``, ``demo`` and ``http`` print them, ``trim`` and ``replay`` select some."""
