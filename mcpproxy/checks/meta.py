"""Names of what stands in _meta.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic#_meta
"""

from typing import Final

from mcpproxy.checks.table import Family

FAMILY: Final = Family()
