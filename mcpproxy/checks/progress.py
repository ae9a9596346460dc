"""Progress: tokens, and what is said of them.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/progress
"""

from typing import Final

from mcpproxy.checks.table import Family

FAMILY: Final = Family()
