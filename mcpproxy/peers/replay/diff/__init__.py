"""Compare two sessions of a server."""
