"""Show recordings as calls, for the terminal, the page and the exports."""
