"""Warn in advance of parts of a file that a host will not read, and of servers that it will not start."""
