"""Checks that run only when a user enables them. ``deprecated`` and ``credentials`` serve every session."""
