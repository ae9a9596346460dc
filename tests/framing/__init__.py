"""Framing: the same frames for any split of the bytes."""
