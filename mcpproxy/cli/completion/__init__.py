"""Completion in shells, and the man page: both are made from the parsers of all commands."""
