"""A recording as a diagram: bars on a line of time, and messages as arrows."""
