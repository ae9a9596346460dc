"""``--enforce RULE,...``: which rules are refused instead of only flagged, on ``run`` and on ``http``.

Imported only when something is enforced, for all of the judge comes with it.
"""

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from mcpproxy import catalogue
from mcpproxy.cli.usage import UsageError
from mcpproxy.observer.enforce import Enforcer, enforceable
from mcpproxy.selection import resolve, unknown

if TYPE_CHECKING:
    import socket

    from mcpproxy.relay.gate import GatedRelay
    from mcpproxy.relay.http import Settings
    from mcpproxy.relay.http_gate import GatedProxy
    from mcpproxy.relay.journal import Journal


def enforced(where: str, values: Iterable[str]) -> frozenset[str]:
    """The rules that the values of ``--enforce`` name: codes or names, comma-separated.

    Raises:
        UsageError: a name that is no single rule, or a rule that cannot be enforced.
    """
    known, possible = catalogue.load(), enforceable()
    found: set[str] = set()
    for named in filter(None, (name.strip() for name in ",".join(values).split(","))):
        codes = resolve(known, named)
        if not codes:
            raise unknown(f"{where}: --enforce", known, named)
        if len(codes) > 1:
            raise UsageError(where, f"--enforce {named} is a family", "name the rules one by one")
        if not codes <= possible:
            raise UsageError(
                where,
                f"--enforce {named}: it is not decided by a request alone, so nothing could be refused",
                f"what can be: {', '.join(sorted(possible))}",
            )
        found |= codes
    if not found:
        raise UsageError(where, "--enforce names no rule", "see mcpproxy rules")
    return frozenset(found)


def gated(where: str, values: Iterable[str]) -> "Callable[[Journal | None, int, float, bool], GatedRelay]":
    """What makes the relay of a stdio session in which the rules in ``values`` are enforced.

    Raises:
        UsageError: as ``enforced``, or where stdio is pumped by threads.
    """
    if sys.platform == "win32":
        raise UsageError(
            where, "--enforce is not available on Windows", "leave it out: rules are still flagged"
        )
    rules = enforced(where, values)

    def make(journal: "Journal | None", wakeup: int, grace_s: float, quiet: bool) -> "GatedRelay":
        from mcpproxy.relay.gate import GatedRelay

        return GatedRelay(journal, wakeup, grace_s, quiet, lambda: Enforcer(catalogue.load(), rules))

    return make


def gated_http(
    where: str, values: Iterable[str], endpoint: str
) -> "Callable[[Settings, socket.socket, Journal | None], GatedProxy]":
    """As ``gated``, for the proxy before an HTTP server.

    Raises:
        UsageError: as ``enforced``.
    """
    rules = enforced(where, values)

    def make(settings: "Settings", listener: "socket.socket", journal: "Journal | None") -> "GatedProxy":
        from mcpproxy.relay.http_gate import GatedProxy

        return GatedProxy(settings, listener, journal, Enforcer(catalogue.load(), rules), endpoint)

    return make
