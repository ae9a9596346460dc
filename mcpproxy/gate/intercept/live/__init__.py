"""Messages judged before they pass, for breakpoints on findings."""
