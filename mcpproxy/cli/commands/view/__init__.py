"""Commands that show a recording as calls."""
