"""Read recordings of other tools as traces."""
