"""Writes answers, whole or as a stream, and errors, for each interface of language models."""
