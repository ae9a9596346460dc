"""A recording replaces the server."""
