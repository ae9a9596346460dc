"""Checks of the Agent Client Protocol (ACP), which connects editors with coding agents."""
