"""Attacks on an installed ``mcpproxy``, each from outside: hostile folders, hostile peers, hard ends."""
