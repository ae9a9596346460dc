"""Error codes of the stateless revisions."""

from typing import Final

from mcpproxy.checks.table import Family

FAMILY: Final = Family()
