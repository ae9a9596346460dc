"""Real MCP software for the tests: SDK clients and servers, installed once per machine."""
