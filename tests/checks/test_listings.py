"""The memory of lists is bounded, and forgotten items count as unknown."""

import json
from typing import Any, Final

import pytest

from mcpproxy.judge.checks import STANDARD
from mcpproxy.judge.checks.server.listings import MAX_ITEMS, MAX_WALKS, ListedItem, ListState, listed
from mcpproxy.judge.observer.findings import FindingBuilder
from mcpproxy.judge.observer.message_judge import MessageJudge
from mcpproxy.judge.ruleset import catalogue
from mcpproxy.judge.session.frame import Finding, Frame, Sender
from mcpproxy.protocol.revisions import REVISIONS

REVISION: Final = "2025-11-25"


class Session:
    """A session of one revision without its handshake."""

    def __init__(self) -> None:
        self.judge = MessageJudge(FindingBuilder(catalogue.load()), STANDARD, revision=REVISION)
        self.seq = 0
        self.found: list[Finding] = []

    def say(self, sender: Sender, **message: Any) -> None:
        self.seq += 1
        raw = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.found += self.judge.observe(Frame(self.seq, sender, raw, self.seq))

    def page(self, names: list[str], cursor: str | None = None, after: str | None = None) -> None:
        """Request one page of tools, and answer with these names."""
        self.say("client", id=self.seq, method="tools/list", params={"cursor": cursor} if cursor else {})
        tools: list[Any] = [
            {"name": name, "inputSchema": {"type": "object", "properties": {}}} for name in names
        ]
        result: dict[str, Any] = {"tools": tools, **({"nextCursor": after} if after else {})}
        self.say("server", id=self.seq - 1, result=result)

    @property
    def tools(self) -> ListState:
        return listed(self.judge.history, "tools/list")


REMOTE: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"a": {"$ref": "https://example.com/a.json"}},
}
UNUSABLE: dict[str, tuple[dict[str, Any], str]] = {
    "another document": (REMOTE, 'its $ref "https://example.com/a.json" cannot be followed'),
    "an unknown dialect": ({"$schema": "our", "type": "object"}, 'its dialect "our" is unknown'),
    "a cycle": ({"type": "object", "allOf": [{"$ref": "#"}]}, "its references form a cycle"),
    "a large schema": ({"type": "object", "description": "x" * (1 << 17)}, "it is longer than 128 KiB"),
    "a large number": (
        {"type": "object", "maxProperties": 1 << 70},
        "it has a lone surrogate, a number beyond 64 bits or hundreds of levels",
    ),
    "a reference that the dialect lacks": (
        {"type": "object", "$recursiveRef": "#"},
        "it has a $recursiveRef, or a subschema of another dialect",
    ),
    "many subschemas": (
        {"type": "object", "properties": {str(number): {} for number in range(6000)}},
        "it has more than 5000 subschemas or 100 levels of them",
    ),
    "an id beside references": (
        {"type": "object", "properties": {"a": {"$ref": "#/properties/b"}, "b": {"$id": "b"}}},
        "it has references, and a subschema with its own $id",
    ),
    "a pattern that is no regular expression": (
        {"type": "object", "properties": {"a": {"pattern": "("}}},
        "the validator does not accept it",
    ),
    "an ordinary schema": ({"type": "object", "properties": {"a": {"type": "string"}}}, ""),
    "a flaw that the list reports": ({**REMOTE, "required": "a"}, ""),
}


@pytest.mark.parametrize(("schema", "why"), UNUSABLE.values(), ids=UNUSABLE)
def test_why_a_schema_cannot_be_used(schema: dict[str, Any], why: str) -> None:
    tool = ListedItem({"name": "t", "inputSchema": schema}, 1, 0)
    assert tool.obstacles(REVISION) == ((("inputSchema", why),) if why else ())


def test_the_output_of_the_stateless_revision_may_be_any_value() -> None:
    output: dict[str, Any] = {"type": "array", "items": {"$ref": "https://example.com/a.json"}}
    tool = ListedItem({"name": "t", "inputSchema": REMOTE, "outputSchema": output}, 1, 0)
    names = {revision: [name for name, _ in tool.obstacles(revision)] for revision in REVISIONS}
    assert names["2025-03-26"] == names["2025-11-25"] == ["inputSchema"]
    assert names["2026-07-28"] == ["inputSchema", "outputSchema"]


def test_pages_make_a_whole_list() -> None:
    session = Session()
    session.page(["a"], after="2")
    assert session.tools.current is None
    session.page(["b"], cursor="2")
    assert session.tools.current is not None
    assert list(session.tools.current.items) == ["a", "b"]
    assert list(session.tools.items) == ["a", "b"]


def test_a_page_in_the_middle_is_not_a_whole_list() -> None:
    session = Session()
    session.page(["b"], cursor="2")
    assert session.tools.current is None
    assert list(session.tools.items) == ["b"]


def test_an_announced_change_discards_the_list() -> None:
    session = Session()
    session.page(["a"])
    session.say("server", method="notifications/tools/list_changed")
    assert session.tools.current is None
    assert session.tools.items == {}
    session.page(["b"])
    assert list(session.tools.items) == ["b"]


def test_a_tool_that_is_no_longer_listed_is_forgotten() -> None:
    session = Session()
    session.page(["a", "b"])
    session.page(["b"])
    assert list(session.tools.items) == ["b"]


def test_a_name_that_two_tools_have_is_unknown() -> None:
    session = Session()
    session.page(["a", "a", "b"])
    assert list(session.tools.items) == ["b"]


def test_walks_that_nobody_continues_are_forgotten() -> None:
    session = Session()
    for number in range(3 * MAX_WALKS):
        session.page(["a"], after=f"{number}")
    assert len(session.tools.under_way) == MAX_WALKS
    session.page(["b"], cursor="0")
    assert session.tools.current is None


def test_a_list_without_end_stays_bounded() -> None:
    session = Session()
    half = [f"t{number}" for number in range(MAX_ITEMS // 2 + 1)]
    session.page(half, after="2")
    session.page([f"u{name}" for name in half], cursor="2")
    assert session.tools.current is None
    assert MAX_ITEMS <= len(session.tools.items) <= MAX_ITEMS * 9 // 8


def test_a_result_over_lines_is_not_said_to_have_answered() -> None:
    session = Session()
    session.page(["add"])
    session.say("client", id=7, method="tools/call", params={"name": "mul"})
    for raw in (b'{"jsonrpc": "2.0", "id": 7,', b' "result": {"content": []}', b"}"):
        session.seq += 1
        session.found += session.judge.observe(Frame(session.seq, "server", raw, session.seq))
    assert [finding.message for finding in session.found if finding.rule == "TOOL-006"] == [
        'server meant to answer a call of "mul", which it does not list, with a result that is not marked as '
        "an error"
    ]
