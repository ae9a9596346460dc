"""The families of rules that run only when a user enables them."""

from typing import Final

from mcpproxy.checks.engine.rows import RuleFamily
from mcpproxy.checks.hosts import family as hosts
from mcpproxy.checks.opt_in import envelope, extensions, implementations, pins
from mcpproxy.checks.security import secrets

FAMILIES: Final[tuple[RuleFamily, ...]] = (
    extensions.FAMILY,
    envelope.FAMILY,
    implementations.FAMILY,
    pins.FAMILY,
    secrets.FAMILY,
    hosts.FAMILY,
)
