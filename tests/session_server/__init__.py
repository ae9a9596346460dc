"""Tests of mcpproxy/peers/session_server."""
