"""Shapes: which members the params and the result of every method have, in every revision."""
