"""Framing: chunks of bytes in, frames out. The frames do not depend on how the bytes were cut into chunks."""
