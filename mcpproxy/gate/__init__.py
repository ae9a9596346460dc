"""The gate holds a message until it is decided whether it passes, or is refused, delayed or changed."""
