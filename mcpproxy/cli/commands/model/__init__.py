"""``mcpproxy model``: before the interface of a model, or in place of one."""
