"""What a server asks of a client: roots, sampling, elicitation."""
