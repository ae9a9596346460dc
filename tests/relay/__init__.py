"""The data path: bytes, processes, the journal and the cost of starting."""
