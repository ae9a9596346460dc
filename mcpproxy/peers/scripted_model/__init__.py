"""A model that follows a script: a server is tested inside real hosts, offline and without keys."""
