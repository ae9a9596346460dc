"""What a host will not read of its file, and which servers it will not start: said before it happens."""
