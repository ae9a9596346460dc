"""Checks that run only when a user enables them."""
