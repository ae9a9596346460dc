"""JSON Schema: is a schema sound, does a value fit it, and what does finding out cost."""
