"""The recorder: from the journal to the trace, whatever happens on the way."""
