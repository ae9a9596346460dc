"""Recordings for agents: an MCP server that only reads; see README.md."""
