"""Checks that run only if a user enables them; but ``deprecated`` and ``credentials`` run in all sessions."""
