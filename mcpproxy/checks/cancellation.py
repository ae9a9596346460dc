"""Cancelling what was asked.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation
"""

from typing import Final

from mcpproxy.checks.table import Family

FAMILY: Final = Family()
