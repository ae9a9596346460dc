"""The recorder, a process beside the relay: it reads the journal (the relay's copy of the traffic) as it
grows, judges the frames (lines, bodies, events), writes the trace, and reports to stderr."""
