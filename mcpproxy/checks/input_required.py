"""Answers that ask back, and the requests that come again with what was asked for."""

from typing import Final

from mcpproxy.checks.table import Family

FAMILY: Final = Family()
