"""The gate holds a message until it is decided whether to refuse, delay or change it, or to ask about it."""
