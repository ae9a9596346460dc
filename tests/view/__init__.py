"""The view: recordings as calls."""
