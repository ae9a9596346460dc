"""The built-in checks in another order than they are used in: what they find has to be the same."""

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast

from mcpproxy.judge.checks.engine.dispatch import Dispatch
from mcpproxy.judge.checks.engine.rows import Check, EventCheck, HttpCheck, RuleFamily, StderrCheck

Row = TypeVar("Row", Check, HttpCheck, EventCheck, StderrCheck)


@cache
def turned(families: tuple[RuleFamily, ...]) -> Dispatch:
    """Return the dispatch with the last family first, and every check called twice.

    A check is called on every message, not only on those that its row names.
    """
    last_first = (
        RuleFamily(
            tuple(map(_called_twice, family.checks)),
            tuple(map(_called_twice, family.http)),
            tuple(map(_called_twice, family.events)),
            family.updates,
            tuple(map(_called_twice, family.stderr)),
        )
        for family in reversed(families)
    )
    return Dispatch(last_first, narrowed=False)


def _called_twice(row: Row) -> Row:
    """Return the row with a check that runs twice and reports what it found the second time."""
    check: Callable[..., Any] = row.check

    def second_time(*arguments: Any) -> Any:
        list(check(*arguments))
        return check(*arguments)

    members: dict[str, Any] = {name: getattr(row, name) for name in _names(row)}
    members["check"] = second_time
    return type(row)(**members)


def _names(row: Any) -> tuple[str, ...]:
    return tuple(cast("type[Any]", type(row)).__slots__)
