"""The command line: each command is a module, and ``main`` selects one."""
