"""Compare the tools, calls and results that servers sent with those that a model was given in its prompt."""
