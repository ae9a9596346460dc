"""The state of a session: its events, its findings and the messages so far. No I/O, no clock."""
