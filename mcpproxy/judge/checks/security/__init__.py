"""Checks for texts and addresses that deceive people or models, and for leaked keys, as the traffic shows."""
