"""Elicitation: what a server asks of the user.

Source: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation
"""

from typing import Final

from mcpproxy.checks.table import Family

FAMILY: Final = Family()
