"""The families of rules that run only when a user enables them."""

from typing import Final

from mcpproxy.judge.checks.engine.rows import RuleFamily
from mcpproxy.judge.checks.hosts import family as hosts
from mcpproxy.judge.checks.opt_in import envelope, extensions, implementations, pins
from mcpproxy.judge.checks.security import secrets

FAMILIES: Final[tuple[RuleFamily, ...]] = (
    extensions.FAMILY,
    envelope.FAMILY,
    implementations.FAMILY,
    pins.FAMILY,
    secrets.FAMILY,
    hosts.FAMILY,
)
