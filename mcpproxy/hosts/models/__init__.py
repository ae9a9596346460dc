"""Point a host at ``mcpproxy model``, the proxy before its model, by a setting in its file, and undo this.

The records of such settings are not in the ledger (``ledger.py``), which has only records of servers.
"""
