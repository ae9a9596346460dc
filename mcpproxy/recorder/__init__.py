"""The second process: it reads the journal as it grows, judges the frames, writes the trace, and reports to
stderr."""
