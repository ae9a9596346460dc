"""The data path: bytes are forwarded between the peers and copied into the journal. It does not parse MCP."""
