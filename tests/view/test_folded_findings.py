"""Each view says once what was found for twenty-five tools, and how many there are."""

from pathlib import Path
from typing import Any, cast

import pytest

from mcpproxy.base.style import Style
from mcpproxy.cli.calls import listing
from mcpproxy.judge.session.filter import parse_filter
from mcpproxy.read.view.folder import recording
from mcpproxy.read.view.view import View, open_view
from mcpproxy.show.tui import detail_lines
from mcpproxy.show.ui import json_rows
from tests.view.situations import SITUATIONS, begun, write

TOOLS = 25
MORE = '24 more like it in this frame: "t1", "t2", "t3", "t4", "t5", …'


@pytest.fixture
def trace(tmp_path: Path) -> str:
    talk = begun()
    talk.asks(2, "tools/list", {}, ms=100)
    page = talk.answers(2, {"tools": []}, ms=110)
    for number in range(TOOLS):
        talk.finds("SCHEMA-003", page, f'server listed tool "t{number}", which takes any object', "info")
    return write(tmp_path / "tools.jsonl", talk.closes(ms=200))


def list_row(view: View) -> int:
    """Return the row of the list that has the findings."""
    return next(iter(view.numbers("rule:SCHEMA-003")))


def test_show(trace: str) -> None:
    with open_view(trace) as view:
        said = [line for line in listing.listing(view, parse_filter(""), Style()) if "SCHEMA-003" in line]
    assert len(said) == 1
    assert said[0].endswith(f"; {MORE}")


def test_the_terminal_view(trace: str) -> None:
    with open_view(trace) as view:
        lines = detail_lines.detail_lines(view.parts(list_row(view)), 80, raw=False)
        said = ["".join(span.text for span in line) for line in lines]
    assert sum("takes any object" in line for line in said) == 1
    assert sum(line.strip() == MORE for line in said) == 1


def test_the_page(trace: str) -> None:
    with open_view(trace) as view:
        shown = [json_rows.detail(view.parts(list_row(view))), *json_rows.findings(view)]
        [rule] = json_rows.findings(view)
    for part in cast("list[dict[str, Any]]", shown):
        [finding] = part["findings"]
        assert finding["more"] == MORE
        assert len(finding["others"]) == TOOLS - 1
    assert cast("dict[str, Any]", rule)["count"] == TOOLS


def test_a_single_finding_has_no_count(tmp_path: Path) -> None:
    with open_view(write(tmp_path / "finding.jsonl", SITUATIONS["finding"])) as view:
        for rule in cast("list[dict[str, Any]]", json_rows.findings(view)):
            assert [(each["more"], each["others"]) for each in rule["findings"]] == [("", [])]


def test_findings_of_one_rule_are_counted_by_their_own_severities(tmp_path: Path) -> None:
    talk = begun()
    talk.finds("PROTO-010", 2, "a short session id", "warning")
    talk.finds("PROTO-010", 3, "a session that was not deleted", "info")
    path = write(tmp_path / "s.jsonl", talk.closes(ms=99))
    with open_view(path) as view:
        entry = json_rows.recording("s", recording(path))
        summary = json_rows.summary(view, entry)
    assert summary["findings"] == {"warning": 1, "info": 1}
    assert entry["findings"] == {"error": 0, "warning": 1, "info": 1}
