"""Which rows of a recording pass a filter."""
