"""Configuration files of hosts: the servers they name, wrapped and unwrapped without touching anything else.

A host is a row of ``hosts.toml``. Its files are read into values that know where they stand in the text
(``text_nodes.py``, with one module for each language), so that a wrap is two small replacements in the text
(``edits.py``) and everything else stays as it is, to the byte. ``ledger.py`` keeps what was replaced.
"""
