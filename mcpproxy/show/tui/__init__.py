"""The terminal view: sessions, their calls, and the detail of a call."""
