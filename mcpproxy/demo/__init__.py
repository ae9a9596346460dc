"""A small conversation to watch: a server with three faults and a client without any."""
