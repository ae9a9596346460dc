"""Checks: the functions that decide whether a frame breaks a requirement."""
