"""Cursors of the list methods.

Source: https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/pagination
"""

from typing import Final

from mcpproxy.checks.table import Family

FAMILY: Final = Family()
