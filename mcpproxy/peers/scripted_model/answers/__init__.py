"""How each interface of a language model writes an answer, whole and as a stream, and an error."""
