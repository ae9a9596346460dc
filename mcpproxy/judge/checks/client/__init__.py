"""Checks of what a server requests from a client: roots, sampling, elicitation."""
