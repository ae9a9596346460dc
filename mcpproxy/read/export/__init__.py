"""Export recordings as files for other programs."""
