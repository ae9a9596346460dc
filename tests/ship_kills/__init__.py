"""Recordings shipped while the shipper and the store are killed and the disk is full.

``python -m tests.ship_kills [RECORDINGS [KILLS]]`` does it with 1,000 recordings and 200 kills;
``tests/fleet/test_ship_kills.py`` with a few.
"""
