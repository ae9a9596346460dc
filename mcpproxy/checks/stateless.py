"""Requests that carry all that they need."""

from typing import Final

from mcpproxy.checks.table import Family

FAMILY: Final = Family()
