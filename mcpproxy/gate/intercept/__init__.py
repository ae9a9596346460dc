"""The gate of a session: fault rules, breakpoints and addons decide about messages before they pass."""
