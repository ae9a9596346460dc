"""The state of a session: events, findings and what was said so far. No I/O, no clock."""
