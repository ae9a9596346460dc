"""``--rules``, ``--select``, ``--extend-select``, ``--ignore`` and ``--app-errors`` of a recording.

It is imported only if one of them is given, because it imports all of the judge. Errors in them are reported
before the server starts.
"""

import os
import sys
from collections.abc import Sequence

from mcpproxy.cli.arguments import UsageError
from mcpproxy.ruleset.rule_options import RuleOptions


def terms(
    where: str,
    folders: Sequence[str] = (),
    select: Sequence[str] = (),
    extend: Sequence[str] = (),
    ignore: Sequence[str] = (),
    *,
    app_errors: bool = False,
) -> RuleOptions:
    """Return the options that say which rules to judge by, checked; the lists are the values as given.

    Custom rules are code, which may print. From here on that goes to stderr: stdout may be the connection to
    a peer.

    Raises:
        CustomRuleError: what a folder holds cannot be used.
        UsageError: a name is not that of a rule.
    """
    if app_errors:
        extend = (*extend, "APP")
    if folders:
        sys.stdout = sys.stderr
    wanted = RuleOptions(
        tuple(map(os.path.abspath, folders)), tuple(select) or None, tuple(extend), tuple(ignore)
    )
    _, selection = wanted.resolve()
    if selection.wanted is not None and not selection.wanted - selection.ignored:
        raise UsageError(where, "no rule is left to judge by", "see mcpproxy rules")
    return wanted.sealed()


def member(terms: RuleOptions) -> str:
    """Return ``terms`` as JSON, for the START record."""
    import json

    return json.dumps(terms.to_json())
