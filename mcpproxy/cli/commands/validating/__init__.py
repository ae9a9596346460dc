"""``mcpproxy validate`` of clients."""
