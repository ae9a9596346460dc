"""The conversation in a recording, as ``mcpproxy show`` prints it."""
