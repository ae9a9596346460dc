"""Log messages and their levels.

Source: https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging
"""

from typing import Final

from mcpproxy.checks.table import Family

FAMILY: Final = Family()
