"""How a server over HTTP is reached: TLS, the proxy to it, and why there is no connection."""
