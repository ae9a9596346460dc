"""Tests of ``mcpproxy mcp``."""
