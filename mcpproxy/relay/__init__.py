"""The data path: it forwards bytes between the peers and copies them into the journal. It does not parse MCP."""
