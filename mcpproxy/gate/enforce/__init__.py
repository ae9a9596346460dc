"""Refuse requests that break a rule, instead of only reporting them."""
