"""Which rows of a recording pass a filter, and which came in the place of an answer."""
