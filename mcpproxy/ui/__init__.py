"""The page: recordings in a browser. A process of its own that reads files; see README.md."""
