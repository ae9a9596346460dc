"""The client side of a session's control socket, by which a command or the page asks what is held."""
