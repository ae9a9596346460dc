"""The tools of a recording beside their pins."""

from pathlib import Path
from typing import Any

from mcpproxy.judge.session.masked_values import mask
from mcpproxy.read.opening import open_trace
from mcpproxy.read.reports.pin_file import collect_pins
from mcpproxy.read.view.drift import drift as compared
from mcpproxy.read.view.view import open_view
from tests.test_pins import CHANGED, MAIL, READ, WRITE, recorded


def drift(
    tmp_path: Path, pinned: list[dict[str, Any]], *pages: list[dict[str, Any]], **more: Any
) -> tuple[dict[str, str], list[str]]:
    """Return the state of each listed tool, and the tools that are gone."""
    pins = collect_pins(open_trace(recorded(tmp_path / "pinned.jsonl", pinned))).pins
    with open_view(recorded(tmp_path / "now.jsonl", *pages, **more)) as view:
        found, gone = compared(view.tools, view.sessions, pins)
    return {name: each.state for (_, name), each in found.items()}, [each.name for each in gone]


def test_each_tool_stands_beside_its_pin(tmp_path: Path) -> None:
    states, gone = drift(tmp_path, [READ, WRITE, MAIL], [CHANGED, WRITE], [{**READ, "name": "list"}])
    assert states == {"read": "changed", "write": "same", "list": "new"}
    assert gone == ["mail"]


def test_what_has_changed_is_said(tmp_path: Path) -> None:
    pins = collect_pins(open_trace(recorded(tmp_path / "pinned.jsonl", [READ]))).pins
    with open_view(recorded(tmp_path / "now.jsonl", [CHANGED])) as view:
        found, _ = compared(view.tools, view.sessions, pins)
    (read,) = found.values()
    assert [line.partition(" ")[0] for line in read.lines] == ["description", "inputSchema", "annotations"]


def test_a_tool_is_not_gone_while_a_page_is_missing(tmp_path: Path) -> None:
    states, gone = drift(tmp_path, [READ, WRITE], [READ], [WRITE], asked_for=1)
    assert (states, gone) == ({"read": "same"}, [])


def test_a_server_without_pins_has_no_drift(tmp_path: Path) -> None:
    assert drift(tmp_path, [READ], [CHANGED], name="another") == ({}, [])


def test_a_masked_definition_is_not_judged(tmp_path: Path) -> None:
    masked = {**READ, "description": str(mask("Read a file"))}
    states, _ = drift(tmp_path, [READ, WRITE], [masked, WRITE])
    assert states == {"write": "same"}
