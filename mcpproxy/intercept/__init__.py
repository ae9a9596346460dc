"""Faults on purpose: messages that a rule matches are delayed, changed, dropped or answered."""
