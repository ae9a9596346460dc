"""Addons: the process in which they run, and the questions that a relay asks it."""
