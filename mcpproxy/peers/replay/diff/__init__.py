"""What differs between two sessions of a server."""
