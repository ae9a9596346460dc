"""How each interface of a language model writes tools, calls and results."""
