"""The data path: forwards bytes between the peers and copies them into the journal. It knows nothing of
MCP."""
