"""Tasks of 2025-11-25.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks
"""

from typing import Final

from mcpproxy.checks.table import Family

FAMILY: Final = Family()
