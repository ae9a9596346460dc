"""A recording stands in for the server."""
