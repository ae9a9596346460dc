"""The rules: a folder per rule with the sessions that break it and those that nearly do."""
