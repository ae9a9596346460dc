"""The options of ``run``, ``http`` and ``bridge`` that select rules.

This module imports the whole judge, so it is imported only if one of these options is given. Their values are
checked before the server starts.
"""

import os
import sys
from collections.abc import Sequence

from mcpproxy.cli.arguments import UsageError
from mcpproxy.judge.ruleset.rule_options import RuleOptions


def rule_options(
    where: str,
    folders: Sequence[str] = (),
    select: Sequence[str] = (),
    extend: Sequence[str] = (),
    ignore: Sequence[str] = (),
    hosts: Sequence[str] = (),
    *,
    hosts_grade: str = "",
    app_errors: bool = False,
    secrets: bool = False,
) -> RuleOptions:
    """Check the values of the options that select rules, and return them as ``RuleOptions``.

    ``where`` is the command that the error names if no rule is left.

    If there are custom rules, in ``folders``, the options are sealed: a later recovery of the recording can
    tell that the same user chose these folders, and that their rules have not changed since. Also,
    ``sys.stdout`` becomes stderr, because the rules may print, and stdout may be the connection to a peer.

    Raises:
        CustomRuleError: the rules in a folder cannot be used.
        UsageError: a rule or a host is unknown, no rule is left, or there is a grade without ``hosts``.
        OSError: a file of custom rules cannot be read when they are sealed.
    """
    if hosts_grade and not hosts:
        raise UsageError("--hosts-grade", "goes together with --hosts", "name hosts: --hosts seen")
    if app_errors:
        extend = (*extend, "APP")
    if secrets:
        extend = (*extend, "SEC-007")
    if folders:
        sys.stdout = sys.stderr
    wanted = RuleOptions(
        tuple(map(os.path.abspath, folders)),
        tuple(select) or None,
        tuple(extend),
        tuple(ignore),
        hosts=tuple(hosts),
        hosts_grade=hosts_grade,
    )
    _, selection = wanted.resolve()
    if selection.wanted is not None and not selection.wanted - selection.ignored:
        raise UsageError(where, "no rule is left to judge by", "see mcpproxy rules")
    return wanted.sealed()


def as_json(rule_options: RuleOptions) -> str:
    """Return ``rule_options`` as JSON, for the START record of the journal."""
    import json

    return json.dumps(rule_options.to_json())
