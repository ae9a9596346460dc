"""Checks of what a person or a model is deceived by, where the traffic itself proves it."""
