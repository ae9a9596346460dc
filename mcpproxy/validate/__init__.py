"""A client of our own that probes a server, and judges what it says with the observer of the proxy."""
