"""Checks of every message: JSON-RPC, lifecycle, capabilities, the members of params and results."""
