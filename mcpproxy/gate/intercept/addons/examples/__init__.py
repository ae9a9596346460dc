"""Example addons, to use as they are or to start from: ``mcpproxy --addon FILE``."""
