"""The recorder turns the journal into the trace, whatever happens meanwhile."""
