"""Configuration files of hosts: the servers they name, wrapped and unwrapped without touching anything else.

A host, such as an editor, is a program that starts servers; ``hosts.toml`` has a row for each. A file is read
into nodes, which are values with their positions in the text (``text_nodes.py``, and one module for each
language). So a wrap replaces two small pieces of the text (``wrapping.py``), and every other byte stays as it
is. ``ledger.py`` keeps the replaced text.
"""
