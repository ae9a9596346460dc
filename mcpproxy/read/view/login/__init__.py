"""A login of a client, as numbered steps with what was asked and answered."""
