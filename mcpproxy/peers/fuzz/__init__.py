"""Sends changed copies of recorded requests to a live server, and reports its faults."""
