"""Forward the bytes, copy them into a journal, and make the trace from the journal."""
