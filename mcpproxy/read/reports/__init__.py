"""The reports: each module has one output format, made by pure functions that return lines of text."""
