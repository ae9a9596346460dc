"""``--enforce RULE,...`` of ``run``, ``http`` and ``bridge``: refuse requests that break these rules.

This module imports the whole judge, so it is imported only if the option is given. A custom rule is enforced
like any other. If its Python function fails, a message on stderr says so, and the rule is no longer enforced.
"""

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from mcpproxy.cli.arguments import UsageError
from mcpproxy.gate.enforce.policy import Enforcer, enforceable_rules
from mcpproxy.judge.ruleset.rule_options import RuleOptions
from mcpproxy.judge.ruleset.selection import resolve, unknown

if TYPE_CHECKING:
    from mcpproxy.gate.intercept.gate_options import MakePolicy
    from mcpproxy.judge.ruleset.guards import CustomRuleError


def rules_to_enforce(
    where: str, values: Iterable[str], rule_options: RuleOptions | None = None
) -> frozenset[str]:
    """Return the codes of the rules that ``values``, the values of ``--enforce``, name.

    Args:
        where: the command, for error messages.
        values: codes or names, comma-separated.
        rule_options: the rules by which the session is judged; ``None`` for the default rules.

    Raises:
        UsageError: a name is not the name of a single rule, a rule cannot be enforced or is not selected, or
            no rule is named.
    """
    rules, selection = (rule_options or RuleOptions()).resolve()
    catalogue, enforceable_codes = rules.catalogue, enforceable_rules(rules.dispatch)
    chosen_codes: set[str] = set()
    for name in filter(None, (name.strip() for name in ",".join(values).split(","))):
        codes = resolve(catalogue, name)
        if not codes:
            raise unknown(f"{where}: --enforce", catalogue, name)
        if len(codes) > 1:
            raise UsageError(where, f"--enforce {name} is a family", "name the rules one by one")
        if not codes <= enforceable_codes:
            raise UsageError(
                where,
                f"--enforce {name}: a request alone does not show whether the rule is broken",
                f"these can be enforced: {', '.join(sorted(enforceable_codes))}",
            )
        if not all(map(selection.takes, codes)):
            if codes <= selection.ignored:
                raise UsageError(where, f"--enforce {name}: --ignore leaves it out", "do not ignore it")
            raise UsageError(where, f"--enforce {name}: it is not selected", "select it as well")
        chosen_codes |= codes
    if not chosen_codes:
        raise UsageError(where, "--enforce names no rule", "see mcpproxy rules")
    return frozenset(chosen_codes)


def policy_factory(
    where: str, values: Iterable[str], rule_options: RuleOptions | None = None
) -> "MakePolicy":
    """Return a factory of the policy that refuses requests which break the rules in ``values``.

    Raises:
        UsageError: as for ``rules_to_enforce``, or messages on stdio cannot be held (Windows).
    """
    if sys.platform == "win32" and where != "http":
        raise UsageError(
            where,
            "--enforce is not available on Windows for a server on stdio",
            "leave it out: rules are still flagged",
        )
    rules = rules_to_enforce(where, values, rule_options)

    def make_enforcer(say: "Callable[[str], None]") -> Enforcer:
        def leave_out(codes: tuple[str, ...], fault: "CustomRuleError") -> None:
            if lost := ", ".join(sorted(rules.intersection(codes))):
                say(f"{lost} is not enforced any more: {' '.join(str(fault).split())}")

        rules_in_use, _ = (rule_options or RuleOptions()).resolve(leave_out)
        return Enforcer(rules_in_use.catalogue, rules, rules_in_use.dispatch)

    return make_enforcer
