"""Recordings sent elsewhere: as spans, to object stores."""
