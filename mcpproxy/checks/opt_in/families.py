"""What a session is judged by only if somebody asks for it."""

from typing import Final

from mcpproxy.checks.engine.rows import RuleFamily
from mcpproxy.checks.opt_in import envelope, extensions, implementations, pins

FAMILIES: Final[tuple[RuleFamily, ...]] = (
    extensions.FAMILY,
    envelope.FAMILY,
    implementations.FAMILY,
    pins.FAMILY,
)
