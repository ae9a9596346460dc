"""Checks of the requests of a server to its client: roots, sampling, elicitation."""
