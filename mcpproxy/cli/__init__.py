"""The command line: each command is a small module, and ``main`` selects one."""
