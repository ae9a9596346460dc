"""JSON Schema: whether a schema is valid, whether a value matches it, and how much work that check is."""
