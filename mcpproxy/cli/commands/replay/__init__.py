"""``mcpproxy replay``: a recording replaces the server, or the client."""
