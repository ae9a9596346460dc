"""Point a host at ``mcpproxy model`` by a setting in the host's file, and undo this.

The records of such settings are not in the ledger (``ledger.py``), which has only records of servers.
"""
