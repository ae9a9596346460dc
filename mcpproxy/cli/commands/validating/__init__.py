"""``mcpproxy validate client``."""
