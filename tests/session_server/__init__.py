"""Tests of mcpproxy/session_server."""
