"""Calling tools: what is asked of them and what they give back.

Source: https://modelcontextprotocol.io/specification/2025-11-25/server/tools#calling-tools
"""

from typing import Final

from mcpproxy.checks.table import Family

FAMILY: Final = Family()
