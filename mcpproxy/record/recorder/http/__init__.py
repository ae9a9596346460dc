"""Recording over HTTP: from the bytes of connections to events."""
