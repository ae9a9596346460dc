"""Addons to start from, and to use as they are: ``mcpproxy --addon FILE``."""
