"""Point a host at ``mcpproxy model`` by a setting in its own file, and give the file back.

A record of such a setting is not in the ledger, whose records are entries of servers.
"""
