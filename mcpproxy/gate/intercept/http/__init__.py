"""The gate of a proxy before an HTTP server: requests, bodies and events."""
