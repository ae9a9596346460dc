"""How long a stateless answer may be kept."""

from typing import Final

from mcpproxy.checks.table import Family

FAMILY: Final = Family()
