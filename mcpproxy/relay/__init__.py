"""The data path: bytes from peer to peer, and a copy into the journal. Knows nothing of MCP."""
