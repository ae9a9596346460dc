"""Streams of notifications that a stateless client asks for."""

from typing import Final

from mcpproxy.checks.table import Family

FAMILY: Final = Family()
