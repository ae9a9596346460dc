"""The recorder, a process beside the relay: it reads the journal of the relay as it grows, judges the frames,
writes the trace, and reports to stderr."""
