"""Modules that every package may use. They do not depend on the protocol."""
