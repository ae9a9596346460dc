"""A recording stands in for the client."""
