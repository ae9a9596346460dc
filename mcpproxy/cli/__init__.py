"""The command line: one small module per command; ``main`` selects the command."""
