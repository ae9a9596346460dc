"""Recordings judged one by one, in shards and by engines, each under limits."""
