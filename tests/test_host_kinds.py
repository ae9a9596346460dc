"""Each form of the facts that ship is met by a session, and not by its nearest lawful twin."""

import json
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any, Final

import pytest

from mcpproxy.judge.ruleset import host_facts
from tests.rules import runner

OBSERVED: Final = frozenset(("HOST-007", "HOST-016", "HOST-022"))
"""Rules about what a recording shows of its own client, without a fact."""

NAMED: Final = ("shape", "at", "of", "over", "unit", "keeps", "ends", "blob")
"""Settings whose values choose what is done. Of the others it only counts whether they are there."""


def forms(kind: str, settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield each setting of a fact with its value, or with whether it is there."""
    yield kind
    for name, (_, _, default) in host_facts.KINDS[kind].items():
        value = settings.get(name, default)
        told = json.dumps(value) if name in NAMED and name not in ("keeps", "ends") else bool(value)
        yield f"{kind} {name} {told}"


def forms_of_sessions(*, bad: bool) -> set[str]:
    rows = (row for each in runner.fixtures() if each.bad is bad for row in each.hosts)
    return {form for row in rows if not isinstance(row, str) for form in forms(row["kind"], row)}


SHIPPED: Final = sorted(
    {
        form
        for host in host_facts.load(date(2026, 11, 29))
        for fact in host.facts
        for form in forms(fact.kind, fact.settings)
    }
)


@pytest.mark.parametrize("form", SHIPPED)
def test_a_form_has_a_session_and_its_lawful_twin(form: str) -> None:
    for bad in (True, False):
        assert form in forms_of_sessions(bad=bad)


@pytest.mark.parametrize("rule", sorted(OBSERVED))
def test_what_is_observed_has_a_session_and_its_lawful_twin_on_stdio_and_over_http(rule: str) -> None:
    seen = {
        (each.bad, "http" in each.path.stem)
        for each in runner.fixtures()
        if each.rule == rule and each.hosts == ("seen",)
    }
    assert seen >= {(True, False), (False, False)}
    if rule != "HOST-016":  # over HTTP a stateless client cancels by closing the stream
        assert seen == {(True, False), (False, False), (True, True), (False, True)}


def test_every_kind_is_shipped() -> None:
    assert {form for form in SHIPPED if " " not in form} == set(host_facts.KINDS)
