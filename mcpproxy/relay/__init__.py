"""The data path: forwards bytes between peers and copies them into the journal. Knows nothing about MCP."""
