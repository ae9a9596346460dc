"""``mcpproxy bridge``: between stdio and Streamable HTTP, with a recording of each side."""
