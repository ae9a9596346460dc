"""Whole sessions over HTTP through a running mcpproxy: what breaks a requirement, and what just does not."""
