"""Checks of the Agent Client Protocol."""
