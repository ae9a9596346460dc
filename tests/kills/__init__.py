"""Kills of every process of a session at any moment, and what is left of its recording.

``python -m tests.kills`` runs them by the dozen and prints a table; ``tests/test_kills.py`` runs a few.
"""
