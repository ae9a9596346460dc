"""Connections to HTTP servers: TLS, the HTTP proxy on the way, and the reasons why a connection fails."""
