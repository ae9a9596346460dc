"""Index a recording: read its lines, follow it while it grows, and save the index if it is large."""
