"""Roots that a client grants.

Source: https://modelcontextprotocol.io/specification/2025-11-25/client/roots
"""

from typing import Final

from mcpproxy.checks.table import Family

FAMILY: Final = Family()
