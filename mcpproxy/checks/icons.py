"""Icons of what a peer presents.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic#icons
"""

from typing import Final

from mcpproxy.checks.table import Family

FAMILY: Final = Family()
