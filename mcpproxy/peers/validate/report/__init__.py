"""The result of a validation as text, JSON and test cases."""
