"""The command line: one command per file, each thin; ``main`` picks the one that was asked for."""
