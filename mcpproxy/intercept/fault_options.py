"""``--faults``, ``--fault`` and ``--fault-seed`` of ``run`` and ``http``.

This module imports the reader of the rules, so it is imported only if one of the options is given. The rules
are read before the server starts.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mcpproxy.errors import UsageError
from mcpproxy.intercept.fault_actions import FaultRuleError, read_action
from mcpproxy.intercept.fault_rules import FaultRule, FaultRules, read_faults, rule_of
from mcpproxy.ruleset.rule_options import RuleOptions

if TYPE_CHECKING:
    import socket

    from mcpproxy.intercept.addons.addon_calls import MakeAddons
    from mcpproxy.intercept.http import FaultProxy
    from mcpproxy.intercept.live.live_judge import LiveJudge, MakeLiveJudge
    from mcpproxy.intercept.stdio import FaultRelay
    from mcpproxy.relay.http.proxy import Settings
    from mcpproxy.relay.journal import Journal
    from mcpproxy.relay.stdio.signals import Signals


def fault_rules(
    where: str,
    files: Sequence[str],
    specs: Sequence[str],
    addons: Sequence[str],
    seed: int | None,
    breakpoints: Sequence[FaultRule],
    *,
    is_enforcing: bool,
) -> FaultRules:
    """Return the rules in ``files`` and ``specs``, and ``breakpoints``, for the command ``where``.

    Raises:
        FaultRuleError: they cannot be used.
        UsageError: there cannot be faults on this system, or beside the other options.
    """
    if sys.platform == "win32":
        raise UsageError(where, "there are no faults on Windows", "leave --fault and --faults out")
    if is_enforcing:
        raise UsageError(where, "--enforce and --fault cannot be combined", "leave one of them out")
    return read_faults(files, specs, "http" if where == "http" else "stdio", seed, addons, breakpoints)


def addons_factory(where: str, names: Sequence[str]) -> "MakeAddons | None":
    """Load addons in a process of their own, and return a factory of what asks them; ``None`` without any.

    Raises:
        UsageError: an addon cannot be used.
    """
    if not names:
        return None
    from mcpproxy.intercept.addons.addon_calls import AddonCalls, AddonHostProcess

    transport = "http" if where == "http" else "stdio"

    def start() -> AddonHostProcess:
        return AddonHostProcess(transport, names)

    host = start()
    host.wait_until_ready(where)

    def make(say: "Callable[[str], None]", trace: str) -> AddonCalls:
        calls = AddonCalls(host, start, say)
        calls.follow(trace)
        return calls

    return make


def fault_proxy_factory(
    rules: FaultRules,
    endpoint: str,
    trace: str,
    make_addons: "MakeAddons | None" = None,
    rule_options: RuleOptions | None = None,
) -> "Callable[[Settings, socket.socket, Journal | None], FaultProxy]":
    """Return a factory of the proxy before an HTTP server, with faults, which is recorded into ``trace``.

    ``rule_options`` say by which rules messages are judged for breakpoints on findings.
    """
    make_judge = judge_factory(rules, rule_options)

    def make(settings: "Settings", listener: "socket.socket", journal: "Journal | None") -> "FaultProxy":
        from mcpproxy.intercept.http import FaultProxy

        return FaultProxy(settings, listener, journal, rules, endpoint, trace, make_addons, make_judge)

    return make


def judge_factory(rules: FaultRules, rule_options: RuleOptions | None) -> "MakeLiveJudge | None":
    """Return what makes the judge of messages before they pass; ``None`` if nothing asks for findings."""
    if not rules.ask_for_findings:
        return None

    def make(say: "Callable[[str], None]") -> "LiveJudge":
        from mcpproxy.intercept.live.live_judge import LiveJudge

        return LiveJudge(rule_options or RuleOptions(), say)

    return make


def with_faults(rule_options: RuleOptions | None) -> RuleOptions:
    """Return the options by which a session with faults is judged."""
    return replace(rule_options or RuleOptions(), has_faults=True).sealed()


def breakpoint_rules(filters: Sequence[str], timeout: str, then: str) -> list[FaultRule]:
    """Return the rules of ``--break FILTER``, with ``--break-timeout`` and ``--break-then``.

    Raises:
        FaultRuleError: one of the options has a value that cannot be read.
    """
    for option, name, value in (("--break-timeout", "within", timeout), ("--break-then", "then", then)):
        try:
            read_action({"pause": True, name: value})
        except FaultRuleError as fault:
            raise FaultRuleError(fault.fact.removeprefix(f"{name} = "), fault.next_step, option) from None
    do = {"pause": True, "within": timeout, "then": then}
    rules: list[FaultRule] = []
    for number, wanted in enumerate(filters, 1):
        try:
            rules.append(rule_of({"name": f"break {number}", "match": wanted, "do": do}, number))
        except FaultRuleError as fault:
            raise FaultRuleError(fault.fact, fault.next_step, "--break") from None
    return rules


def fault_relay_factory(
    rules: FaultRules,
    trace: str,
    make_addons: "MakeAddons | None" = None,
    rule_options: RuleOptions | None = None,
) -> "Callable[[Journal | None, Signals, float, bool], FaultRelay]":
    """Return a factory of the relay for a stdio session with faults, which is recorded into ``trace``.

    ``rule_options`` are as for ``fault_proxy_factory``.
    """
    make_judge = judge_factory(rules, rule_options)

    def make(journal: "Journal | None", signals: "Signals", grace_s: float, quiet: bool) -> "FaultRelay":
        from mcpproxy.intercept.stdio import FaultRelay

        return FaultRelay(journal, signals, grace_s, quiet, rules, trace, make_addons, make_judge)

    return make
