"""A small session for a demonstration: a client, and a server with three deliberate faults."""
