"""Framing: cut streams of bytes into messages. How the bytes arrive in chunks does not change the result."""
