"""Each check by itself, and the table that names them all; what they find is tested in tests/rules."""
