"""One message held: refused, delayed, changed, asked about."""
