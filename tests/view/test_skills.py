"""Calls of the Skills extension are named by the skill, and shown as what they say."""

from pathlib import Path
from typing import Any

import pytest

from mcpproxy.judge.session.filter import parse_filter
from mcpproxy.read.view.digest import result_digest
from mcpproxy.read.view.view import open_view
from tests.view.situations import begun, write

URI = "skill://refunds/SKILL.md"
ENTRY: dict[str, Any] = {"uri": URI, "frontmatter": {"name": "refunds"}, "resources": [{"uri": URI}]}
LETTER = {"uri": "skill://refunds/letters/a.md", "name": "a.md"}

RESULTS: list[tuple[str, dict[str, Any], str]] = [
    ("skills/list", {"skills": [ENTRY], "nextCursor": "2"}, f"1 skill, more follow: {URI}"),
    ("skills/list", {"skills": []}, "0 skills"),
    ("skills/get", {"skill": ENTRY}, "refunds: 1 file"),
    ("skills/get", {"skill": {**ENTRY, "resources": "dynamic"}}, "refunds: dynamic"),
    ("skills/get", {"skill": {"uri": URI}}, ""),
    ("resources/directory/read", {"resources": [LETTER]}, "1 resource: skill://refunds/letters/a.md"),
]


@pytest.mark.parametrize(("method", "result", "shown"), RESULTS)
def test_a_result_says_what_it_lists(method: str, result: dict[str, Any], shown: str) -> None:
    assert result_digest(method, result) == shown


def test_a_call_is_about_its_skill(tmp_path: Path) -> None:
    session = begun()
    session.asks(2, "skills/get", {"uri": URI}, ms=100)  # 4
    session.answers(2, {"skill": ENTRY}, ms=101)
    session.asks(3, "resources/directory/read", {"uri": "skill://refunds/letters"}, ms=200)  # 5
    session.answers(3, {"resources": [LETTER]}, ms=201)
    with open_view(write(tmp_path / "session.jsonl", session.closes(ms=300))) as view:
        calls = view.calls(parse_filter("resource:skill://refunds/*"))
        targets = {call.number: call.target for call in calls}
    assert targets == {4: URI, 5: "skill://refunds/letters"}
