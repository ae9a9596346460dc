"""Two servers compared: what counts as a difference, and how it is called."""

from pathlib import Path
from typing import Any, Final

import pytest

from mcpproxy.peers.replay.diff.comparison import ComparedItem
from mcpproxy.peers.replay.diff.session_diff import compare_sessions, pair_requests
from mcpproxy.peers.replay.diff.values import DiffRules
from tests.replay.plays import told
from tests.replay.scripts import C, Line, S, ask, call, give, session, tell, text

LIST: Final = ask(1, "tools/list")


def compared(
    folder: Path, before: list[Line], after: list[Line], *ignore: str, alike: str = ""
) -> list[ComparedItem]:
    expected, found = session(folder, *before), session(folder, *after)
    rules = DiffRules(ignore, (alike,) if alike else ())
    return compare_sessions(expected, found, pair_requests(expected, found, rules), rules)


def tools(*entries: dict[str, Any], **more: Any) -> list[Line]:
    return [(C, LIST), (S, give(1, tools=list(entries), **more))]


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, **more}


def error(id: int, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}


def answers(before: Any, after: Any) -> tuple[list[Line], list[Line]]:
    return [(C, call(1, "a")), (S, before)], [(C, call(1, "a")), (S, after)]


def answered(before: Any, after: Any, *expected: str) -> tuple[list[Line], list[Line], list[str]]:
    return *answers(before, after), list(expected)


CASES: Final[dict[str, tuple[list[Line], list[Line], list[str]]]] = {
    "nothing": (tools(tool("a")), tools(tool("a")), []),
    "another order of tools": (tools(tool("a"), tool("b")), tools(tool("b"), tool("a")), []),
    "a tool renamed": (
        tools(tool("a"), tool("b")),
        tools(tool("a"), tool("c")),
        ['changed tools/list: tool "b" is gone', 'changed tools/list: tool "c" is new'],
    ),
    "a schema": (
        tools(tool("a")),
        tools(tool("a", inputSchema={"type": "string"})),
        ['changed tools/list: tool "a": /inputSchema/type is "string", was "object"'],
    ),
    "a description": (
        tools(tool("a", description="Old")),
        tools(tool("a", description="New")),
        ['changed tools/list: tool "a": /description is "New", was "Old"'],
    ),
    "two tools of one name": (
        tools(tool("a"), tool("a", title="2")),
        tools(tool("a")),
        ['changed tools/list: tool "a" is gone'],
    ),
    "a member beside the list": (
        tools(ttlMs=1),
        tools(ttlMs=2),
        ["changed tools/list: /result/ttlMs is 2, was 1"],
    ),
    "a list that is none": (
        tools(),
        [(C, LIST), (S, give(1, tools="many"))],
        ['changed tools/list: /result/tools is new ("many")'],
    ),
    "a result that is an error now": answered(
        text(1, "A"),
        error(1, -32603, "boom"),
        'changed tools/call "a": is an error (-32603 "boom"), was a result',
    ),
    "an error that is a result now": answered(
        error(1, -32603, "boom"),
        text(1, "A"),
        'changed tools/call "a": is a result, was an error (-32603 "boom")',
    ),
    "a tool that fails": answered(
        text(1, "A"),
        give(1, content=[{"type": "text", "text": "no"}], isError=True),
        'changed tools/call "a": is a tool error, was a result ("no")',
    ),
    "another error": answered(
        error(1, -32602, "a"),
        error(1, -32602, "b"),
        'changed tools/call "a": /error/message is "b", was "a"',
    ),
    "another text": answered(
        text(1, "A"),
        text(1, "B"),
        'changed tools/call "a": /result/content/0/text is "B", was "A"',
    ),
    "the end of a long text": answered(
        text(1, "x" * 80 + ", then A"),
        text(1, "x" * 80 + ", then B"),
        f'changed tools/call "a": /result/content/0/text is "…{"x" * 13}, then B", was "…{"x" * 13}, then A"',
    ),
    "what a server makes up": answered(
        give(1, _meta={"a": 1}, requestState="x", task={"taskId": "1", "createdAt": "x"}),
        give(1, _meta={"b": 1}, requestState="y", task={"taskId": "2", "createdAt": "y"}),
    ),
    "a request state that is not there": answered(
        give(1, requestState="x"),
        give(1),
        'changed tools/call "a": /result/requestState is missing (was "(there)")',
    ),
    "a request that is not made": (
        [(C, call(1, "a")), (S, text(1, "A"))],
        [(C, call(1, "b")), (S, text(1, "B"))],
        ['missing tools/call "a": is not asked any more', 'new tools/call "b": was not asked before'],
    ),
    "equal requests in order": (
        [(C, call(1, "a")), (S, text(1, "1")), (C, call(2, "a")), (S, text(2, "2"))],
        [(C, call("x", "a")), (S, text("x", "1")), (C, call("y", "a")), (S, text("y", "3"))],
        ['changed tools/call "a": /result/content/0/text is "3", was "2"'],
    ),
    "progress under another token": (
        [(S, tell("notifications/progress", progressToken=1, progress=1))],
        [(S, tell("notifications/progress", progressToken="x", progress=1))],
        [],
    ),
    "notifications in another order, and one of them another": (
        [(S, tell("notifications/message", data=one)) for one in "abc"],
        [(S, tell("notifications/message", data=one)) for one in "cxa"],
        ['changed the server\'s notifications/message: /params/data is "x", was "b"'],
    ),
    "a line that is no message": (
        [(S, "Listening on 80")],
        [(S, "Listening on 81")],
        [
            'missing a line of the server that is neither a message nor an answer: "Listening on 80"',
            'new a line of the server that is neither a message nor an answer: "Listening on 81"',
        ],
    ),
}


@pytest.mark.parametrize(("before", "after", "expected"), CASES.values(), ids=CASES)
def test_two_sessions(tmp_path: Path, before: list[Line], after: list[Line], expected: list[str]) -> None:
    assert told(compared(tmp_path, before, after)) == expected


def test_kinds_are_for_programs(tmp_path: Path) -> None:
    before = tools(tool("a"), tool("b", description="x", outputSchema={}), tool("c", icons=[]))
    after = tools(tool("d"), tool("b", description="y", outputSchema={"a": 1}), tool("c", icons=[1]))
    [item] = compared(tmp_path, before, after)
    assert [change.kind for change in item.changes] == ["removed", "added", "description", "schema", "value"]


def test_what_is_ignored_does_not_count(tmp_path: Path) -> None:
    before, after = tools(tool("a", description="x")), tools(tool("a", description="y"))
    assert told(compared(tmp_path, before, after, "/result/tools/*/description")) == []


def test_two_times_are_alike_if_asked(tmp_path: Path) -> None:
    before, after = answers(text(1, "at 2026-11-22T01:02:03Z"), text(1, "at 2027-01-02T03:04:05Z"))
    assert len(told(compared(tmp_path, before, after))) == 1
    assert told(compared(tmp_path, before, after, alike="timestamps")) == []


def test_one_that_did_not_come_makes_no_other_differ(tmp_path: Path) -> None:
    """No two of them are equal, for each tells the time."""

    def log(year: int, *said: str) -> list[Line]:
        return [(S, tell("notifications/message", data=f"{year}-01-02T03:04:05Z {what}")) for what in said]

    before, after = log(2026, "began", "subscribed", "ended"), log(2027, "subscribed", "ended")
    found = compared(tmp_path, before, after, alike="timestamps")
    assert [(item.frame, item.found_frame, item.verdict) for item in found] == [
        (1, None, "missing"),
        (2, 1, "same"),
        (3, 2, "same"),
    ]
