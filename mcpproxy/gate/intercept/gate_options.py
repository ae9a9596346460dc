"""The options of ``run`` and ``http`` that hold messages before they are forwarded, and their policies.

This module imports the reader of the fault rules, so it is imported only if one of the options is given. The
rules are read before the server starts.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from mcpproxy.base.slotted import slotted
from mcpproxy.base.system_words import os_reason
from mcpproxy.errors import UsageError
from mcpproxy.gate.intercept.addons.closed_gate import ClosedGate
from mcpproxy.gate.intercept.fault_actions import FaultRuleError, read_action
from mcpproxy.gate.intercept.fault_rules import FaultRule, FaultRules, read_faults, rule_of
from mcpproxy.gate.intercept.policies import Policy
from mcpproxy.judge.ruleset.rule_options import RuleOptions

if TYPE_CHECKING:
    from mcpproxy.gate.intercept.addons.addon_calls import AddonCalls, MakeAddons
    from mcpproxy.gate.intercept.live.live_judge import LiveJudge, MakeLiveJudge

Say: TypeAlias = Callable[[str], None]
"""Writes a line to stderr."""

MakePolicy: TypeAlias = Callable[[Say], Policy]
MakePolicyFactory: TypeAlias = Callable[[str, Sequence[str], RuleOptions | None], MakePolicy]
"""Returns a factory of a policy, for the name of a command, the values of an option and the options of rules.

Raises a ``UsageError`` for values that cannot be used."""


@slotted(frozen=True)
class GateOptions:
    """What a gate consists of: fault rules, addons, a judge of incoming messages, and other policies."""

    rules: FaultRules | None = None
    make_addons: "MakeAddons | None" = None
    make_judge: "MakeLiveJudge | None" = None
    others: tuple[MakePolicy, ...] = ()

    def add_policies(
        self, policies: list[Policy], say: Say, addons: "AddonCalls | None", *, is_http: bool
    ) -> ClosedGate:
        """Append the policies of a session to ``policies``, in the order in which they act.

        Return the closed gate: if an addon fails closed, it withholds messages that no addon can be asked
        about.
        """
        gate = ClosedGate(addons.fail_closed if addons is not None else "", say)
        if self.rules is not None:
            from mcpproxy.gate.intercept.fault_policy import FaultPolicy

            policies.append(FaultPolicy(self.rules, say, is_http=is_http))
        if addons is not None:
            from mcpproxy.gate.intercept.addons.addon_policy import AddonPolicy

            policies.append(AddonPolicy(addons.remember_or_wait, gate))
        for make in self.others:
            try:
                policies.append(make(say))
            except Exception as fault:  # a bug in mcpproxy must not end the session
                say(f"a fault of mcpproxy, nothing is refused: {type(fault).__name__}: {fault}")
        return gate


def fault_rules(
    where: str,
    files: Sequence[str],
    specs: Sequence[str],
    addons: Sequence[str],
    seed: int | None,
    breakpoints: Sequence[FaultRule],
) -> FaultRules:
    """Return the rules in ``files`` and ``specs``, and ``breakpoints``, for the command ``where``.

    Raises:
        FaultRuleError: a rule cannot be used.
        UsageError: the system is Windows, on which there are no faults.
    """
    if sys.platform == "win32":
        raise UsageError(where, "there are no faults on Windows", "leave --fault and --faults out")
    return read_faults(files, specs, "http" if where == "http" else "stdio", seed, addons, breakpoints)


def addons_factory(where: str, names: Sequence[str]) -> "MakeAddons | None":
    """Load the addons ``names`` in a process of their own; return a factory of ``AddonCalls``.

    The result is ``None`` without addons. ``where`` is the name of the command, for errors; with ``http`` the
    addons are for HTTP, otherwise for stdio.

    Raises:
        UsageError: an addon cannot be used, or the process cannot be started.
    """
    if not names:
        return None
    from mcpproxy.gate.intercept.addons.addon_calls import AddonCalls, AddonHostProcess

    transport = "http" if where == "http" else "stdio"

    def start() -> AddonHostProcess:
        return AddonHostProcess(transport, names)

    try:
        host = start()
    except OSError as error:
        fact = f"--addon: no process can be started: {os_reason(error)}"
        raise UsageError(where, fact, "see to it and try again") from None
    host.wait_until_ready(where)

    def make(say: "Callable[[str], None]", trace: str) -> AddonCalls:
        calls = AddonCalls(host, start, say)
        calls.follow(trace)
        return calls

    return make


def judge_factory(rules: FaultRules | None, rule_options: RuleOptions | None) -> "MakeLiveJudge | None":
    """Return a factory of the judge of incoming messages; ``None`` if no breakpoint in ``rules`` asks for
    findings.

    The judge judges by the rules that ``rule_options`` name, or by the built-in ones.
    """
    if rules is None or not rules.ask_for_findings:
        return None

    def make(say: "Callable[[str], None]") -> "LiveJudge":
        from mcpproxy.gate.intercept.live.live_judge import LiveJudge

        return LiveJudge(rule_options or RuleOptions(), say)

    return make


def with_faults(rule_options: RuleOptions | None) -> RuleOptions:
    """Return ``rule_options``, sealed (see ``RuleOptions.sealed``), for judging a session that has faults.

    Raises:
        OSError: a folder or a file with rules cannot be read.
    """
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
