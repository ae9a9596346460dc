"""Sidecars that record, rotate, ship and delete for a long time, under a constant load.

``python -m tests.soak [--minutes 30]`` does it with 20 sidecars; ``tests/fleet/test_soak.py`` with two, for
seconds.
"""
