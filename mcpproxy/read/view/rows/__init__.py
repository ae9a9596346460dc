"""Select, search and sort the rows of a recording, and find rows that came instead of an answer."""
