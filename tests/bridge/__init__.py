"""The bridge, as its clients and servers see it."""
