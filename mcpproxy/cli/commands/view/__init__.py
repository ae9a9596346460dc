"""Commands that show recordings: their calls, statistics, logins, and what a model saw."""
