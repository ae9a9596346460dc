"""What a session is judged by only if somebody asks for it."""

from typing import Final

from mcpproxy.checks import envelope, extensions, implementations, pins
from mcpproxy.checks.table import Family

FAMILIES: Final[tuple[Family, ...]] = (
    extensions.FAMILY,
    envelope.FAMILY,
    implementations.FAMILY,
    pins.FAMILY,
)
