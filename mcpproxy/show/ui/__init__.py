"""The page: recordings in a browser. It runs in a process of its own; see README.md."""
