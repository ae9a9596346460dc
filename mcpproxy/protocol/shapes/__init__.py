"""The params and the result of every method, in every revision."""
