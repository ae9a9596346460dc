"""The other side of the socket of a session: the command and the page, which ask what is held."""
