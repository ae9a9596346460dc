"""The page: recordings in a browser. It runs in its own process, which only reads files; see README.md."""
