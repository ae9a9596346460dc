"""One command in each file; the file has the name of the command."""
