"""Rows of the table of scenarios, by what their servers are about."""
