"""The names that custom rules imported before ``mcpproxy.custom_rules``: each works, with a warning."""

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import pytest

from mcpproxy import custom_rules
from mcpproxy.checks import breach, table
from mcpproxy.checks.engine.rows import RuleFamily
from mcpproxy.protocol import slotted
from mcpproxy.ruleset import ruleset as rulesets
from tests import house

OLD: Mapping[ModuleType, tuple[str, ...]] = {
    breach: ("Breach", "Passing", "Check", "HttpCheck", "EventCheck", "spelled", "shortened", "member"),
    table: ("Decider", "HttpDecider", "EventDecider", "Note", "Family", "ASKS", "ANSWERS", "MCP", "Passed"),
    slotted: ("slotted", "field"),
}

CHECKS = """
from mcpproxy.checks.breach import Breach, Passing, member
from mcpproxy.checks.table import Decider, Family, Note
from mcpproxy.protocol.slotted import slotted


@slotted()
class Seen:
    lists: int = 0


def lists_tools(passing, history):
    yield Breach("HOUSE-001", "H-001", "client listed tools", "/method")


def names_itself(passing, history):
    if member(passing.message.result, "serverInfo") is not None:
        yield Breach("HOUSE-002", "H-001", "server named itself", "/result/serverInfo")


def note_list(passing, history):
    history.of(Seen).lists += 1


FAMILY = Family(
    checks=(
        Decider(("HOUSE-001",), lists_tools, ("request",), ("tools/list",)),
        Decider(("HOUSE-002",), names_itself, ("response",)),
    ),
    notes=(Note(note_list, ("request",), ("tools/list",)),),
)
"""
"""A module of checks as it was written for the release before."""


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in OLD.items() for name in names]
)
def test_an_old_name_works_and_says_what_it_is_called_now(module: ModuleType, name: str) -> None:
    with pytest.warns(DeprecationWarning, match=rf"\.{name} is mcpproxy\.\S+ now; the next release removes"):
        assert getattr(module, name) is not None


@pytest.mark.parametrize("module", OLD)
def test_a_name_that_never_was_is_no_attribute(module: ModuleType) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Never'"):
        _ = module.Never


def nothing(_context: custom_rules.MessageContext, _history: custom_rules.History) -> None:
    """Remember nothing."""


def test_an_old_family_takes_its_notes() -> None:
    with pytest.warns(DeprecationWarning, match="the next release removes"):
        family, note = table.Family, table.Note
    update = note(nothing, ("request",))
    assert family(notes=(update,)) == RuleFamily(updates=(update,))
    assert note is custom_rules.StateUpdate


def test_rules_with_old_imports_are_loaded_although_warnings_are_errors(tmp_path: Path) -> None:
    folder = house.build(tmp_path, CHECKS)
    with pytest.warns(DeprecationWarning, match="the next release removes") as warned:
        loaded = rulesets.load([folder])
    assert {"HOUSE-001", "HOUSE-002"} <= loaded.dispatch.rules
    assert any(row.write.__name__ == "note_list" for row in loaded.dispatch.updates)
    assert {(w.filename, w.lineno) for w in warned} == {(f"{folder}/house.py", line) for line in (2, 3, 4)}
