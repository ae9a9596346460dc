"""Checks of stdio and of both HTTP transports, with authorization, sessions and streams."""
