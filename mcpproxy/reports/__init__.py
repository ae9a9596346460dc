"""The reports: one output format per file, written by pure functions that return lines of text."""
