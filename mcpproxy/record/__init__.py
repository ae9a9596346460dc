"""Bytes pass, a copy goes to the journal; from the journal to the trace."""
