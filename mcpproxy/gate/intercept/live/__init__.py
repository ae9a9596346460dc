"""Judge messages before they are forwarded, for breakpoints on findings."""
