"""Addons: the process in which they run, and what a relay asks it."""
