"""server/discover: what a stateless server says of itself."""

from typing import Final

from mcpproxy.checks.table import Family

FAMILY: Final = Family()
