"""Configuration files of hosts: wrap and unwrap the servers in them without touching anything else.

A host, such as an editor, is a program that starts MCP servers; ``hosts.toml`` has a row for each. To wrap a
server means to change its entry so that the host starts it through mcpproxy. A file is read into nodes, which
are values with their positions in the text (``text_nodes.py``, and one module for each language). So wrapping
changes one or two small pieces of the text (``wrapping.py``), and every other byte stays as it is.
``ledger.py`` keeps the replaced text.
"""
