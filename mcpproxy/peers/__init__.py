"""A client or a server of our own: replay, validate, fuzz, bridge, a scripted model."""
