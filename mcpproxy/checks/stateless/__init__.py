"""The revisions without a handshake: every request carries all that it needs."""
