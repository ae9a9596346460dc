"""Sampling: what a server asks of the client's model.

Source: https://modelcontextprotocol.io/specification/2025-11-25/client/sampling
"""

from typing import Final

from mcpproxy.checks.table import Family

FAMILY: Final = Family()
