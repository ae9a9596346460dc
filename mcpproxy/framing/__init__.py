"""Framing: cut streams of bytes into messages. The result does not depend on how the bytes arrive in
chunks."""
