"""A recording replaces the client."""
