"""The trace: what is written is read, and nothing else is."""
