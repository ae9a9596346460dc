"""``--enforce RULE,...``: which rules are refused instead of only flagged, on ``run`` and on ``http``.

It is imported only if rules are enforced, because it imports all of the judge. A custom rule is enforced like
any other; if it fails, a message says so, and from then on it refuses no request.
"""

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from mcpproxy.cli.arguments import UsageError
from mcpproxy.enforce.policy import Enforcer, enforceable
from mcpproxy.ruleset.rule_options import RuleOptions
from mcpproxy.ruleset.selection import resolve, unknown

if TYPE_CHECKING:
    import socket

    from mcpproxy.enforce.http import EnforcingProxy
    from mcpproxy.enforce.stdio import EnforcingRelay
    from mcpproxy.relay.http.proxy import Settings
    from mcpproxy.relay.journal import Journal
    from mcpproxy.relay.stdio.signals import Signals
    from mcpproxy.ruleset.guards import CustomRuleError


def enforced(where: str, values: Iterable[str], terms: RuleOptions | None = None) -> frozenset[str]:
    """Return the rules that the values of ``--enforce`` name: codes or names, comma-separated.

    ``terms`` are the rules that the session is judged by, if they are not the default ones.

    Raises:
        UsageError: a name is not that of a single rule, or a rule cannot be enforced.
    """
    rules, selection = (terms or RuleOptions()).resolve()
    known, possible = rules.catalogue, enforceable(rules.dispatch)
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
        if not all(map(selection.takes, codes)):
            raise UsageError(
                where, f"--enforce {named}: --select or --ignore leaves it out", "judge by it as well"
            )
        found |= codes
    if not found:
        raise UsageError(where, "--enforce names no rule", "see mcpproxy rules")
    return frozenset(found)


def gated(
    where: str, values: Iterable[str], terms: RuleOptions | None = None
) -> "Callable[[Journal | None, Signals, float, bool], EnforcingRelay]":
    """Return a factory of the relay for a stdio session that enforces the rules in ``values``.

    Raises:
        UsageError: as ``enforced``, or stdio is pumped by threads.
    """
    if sys.platform == "win32":
        raise UsageError(
            where, "--enforce is not available on Windows", "leave it out: rules are still flagged"
        )
    rules = enforced(where, values, terms)

    def make(journal: "Journal | None", signals: "Signals", grace_s: float, quiet: bool) -> "EnforcingRelay":
        from mcpproxy.enforce.stdio import EnforcingRelay

        relay = EnforcingRelay(
            journal, signals, grace_s, quiet, lambda: _enforcer(rules, terms, lambda said: relay.say(said))
        )
        return relay

    return make


def gated_http(
    where: str, values: Iterable[str], endpoint: str, terms: RuleOptions | None = None
) -> "Callable[[Settings, socket.socket, Journal | None], EnforcingProxy]":
    """Return a factory like that of ``gated``, for the proxy before an HTTP server.

    Raises:
        UsageError: as ``enforced``.
    """
    rules = enforced(where, values, terms)

    def make(settings: "Settings", listener: "socket.socket", journal: "Journal | None") -> "EnforcingProxy":
        from mcpproxy.enforce.http import EnforcingProxy

        enforcer = _enforcer(rules, terms, lambda said: proxy.stderr_log.say(said))
        proxy = EnforcingProxy(settings, listener, journal, enforcer, endpoint)
        return proxy

    return make


def _enforcer(rules: frozenset[str], terms: RuleOptions | None, say: "Callable[[str], None]") -> Enforcer:
    def leave_out(codes: tuple[str, ...], fault: "CustomRuleError") -> None:
        if lost := ", ".join(sorted(rules.intersection(codes))):
            say(f"{lost} is not enforced any more: {' '.join(str(fault).split())}")

    known, _ = (terms or RuleOptions()).resolve(leave_out)
    return Enforcer(known.catalogue, rules, known.dispatch)
