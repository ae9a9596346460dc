"""Print the conversation in a recording, for ``mcpproxy show``."""
