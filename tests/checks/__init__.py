"""The tables of checks, and checks that need more than the fixtures of tests/rules."""
