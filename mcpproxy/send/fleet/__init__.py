"""Recordings of many machines: shipped to an object store and verified, judged in shards, and as tables."""
