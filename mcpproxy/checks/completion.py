"""Completion of arguments.

Source: https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/completion
"""

from typing import Final

from mcpproxy.checks.table import Family

FAMILY: Final = Family()
