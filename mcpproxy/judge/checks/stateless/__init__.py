"""Checks of the revisions without a handshake, in which every request carries all that it needs."""
