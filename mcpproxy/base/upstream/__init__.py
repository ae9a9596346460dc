"""How a server over HTTP is reached: TLS, and why there is no connection."""
