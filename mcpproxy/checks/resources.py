"""Resources: lists, contents, templates, subscriptions.

Source: https://modelcontextprotocol.io/specification/2025-11-25/server/resources
"""

from typing import Final

from mcpproxy.checks.table import Family

FAMILY: Final = Family()
