"""Bytes as they passed in, frames out: the same frames however the bytes were cut into chunks."""
