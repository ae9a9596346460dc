"""Draw a recording as a diagram: calls as bars on a time line, or messages as arrows."""
