"""The gate of a session: fault rules, breakpoints and addons decide about messages before these pass."""
