"""The index of a recording: read from its lines, read on while it grows, and saved if it is large."""
