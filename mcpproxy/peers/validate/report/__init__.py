"""The result of a validation as text, JSON, test cases and findings."""
