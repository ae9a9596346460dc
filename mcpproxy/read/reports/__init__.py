"""Reports on recordings: text, JSON, formats of other programs, and the files that accept known findings."""
