"""A check changes no state, so neither the number of calls nor the order of families matters."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, Final, TypeVar, cast

import pytest

from mcpproxy.checks.engine.dispatch import Dispatch
from mcpproxy.checks.engine.rows import Check, EventCheck, HttpCheck, RuleFamily, StderrCheck
from mcpproxy.ruleset.ruleset import Ruleset
from mcpproxy.session.frame import Finding
from tests.rules import runner
from tests.rules.runner import Fixture, fixtures, judge

Row = TypeVar("Row", Check, HttpCheck, EventCheck, StderrCheck)

PLAIN: Final = Ruleset.observer


def called_twice(row: Row) -> Row:
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


@cache
def reversed_dispatch(families: tuple[RuleFamily, ...]) -> Dispatch:
    """Return the dispatch with the last family first and every check called twice."""
    return Dispatch(
        RuleFamily(
            tuple(map(called_twice, family.checks)),
            tuple(map(called_twice, family.http)),
            tuple(map(called_twice, family.events)),
            family.updates,
            tuple(map(called_twice, family.stderr)),
        )
        for family in reversed(families)
    )


def observer(ruleset: Ruleset, **options: Any) -> Any:
    dispatch = reversed_dispatch(ruleset.dispatch.families)
    return PLAIN(replace(ruleset, dispatch=dispatch), **options)


def found(fixture: Fixture, revision: str) -> list[Finding]:
    """Return the findings of a fixture, sorted, because their order follows the order of families."""
    return sorted(judge(fixture, revision).findings, key=repr)


def test_a_check_may_be_called_twice_and_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = [(fixture, revision) for fixture in fixtures() for revision in fixture.revisions]
    plain = [found(*each) for each in tried]
    monkeypatch.setattr(runner.Ruleset, "observer", observer)
    turned = [found(*each) for each in tried]
    differing = [str(each) for each, one, other in zip(tried, plain, turned, strict=True) if one != other]
    assert differing == []
