"""One command per file, which has the name of the command."""
