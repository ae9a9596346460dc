"""The messages of an ACP session are shown as what they say, and as JSON if they are not as usual."""

from typing import Any

import pytest

from mcpproxy.read.view.digest import arguments_digest, result_digest

TEXT = {"type": "text", "text": "Build it"}
LINK = {"type": "resource_link", "name": "a.txt", "uri": "file:///srv/a.txt"}
OPTIONS = [{"optionId": "allow", "name": "Allow"}, {"optionId": "reject", "name": "Reject"}]


def update(kind: str, **members: object) -> dict[str, Any]:
    return {"sessionId": "s", "update": {"sessionUpdate": kind, **members}}


ARGUMENTS = [
    ("session/prompt", {"prompt": [TEXT, LINK]}, "Build it [resource_link a.txt]"),
    ("session/update", update("agent_message_chunk", content=TEXT), "agent_message_chunk Build it"),
    ("session/update", update("agent_message", content=[TEXT]), "agent_message Build it"),
    (
        "session/update",
        update("tool_call", toolCallId="t", title="Make", status="pending"),
        "tool_call pending Make",
    ),
    (
        "session/update",
        update("tool_call_update", toolCallId="t", status="failed"),
        "tool_call_update failed t",
    ),
    (
        "session/update",
        update("state_update", state="idle", stopReason="end_turn"),
        "state_update idle end_turn",
    ),
    (
        "session/request_permission",
        {"toolCall": {"toolCallId": "t", "title": "Make"}, "options": OPTIONS},
        "Make (allow, reject)",
    ),
    (
        "session/request_permission",
        {"title": "Run?", "subject": {"type": "command", "command": "make"}, "options": OPTIONS},
        "Run? make (allow, reject)",
    ),
    ("terminal/create", {"command": "make", "args": ["-j", "all"]}, "make -j all"),
    ("fs/read_text_file", {"sessionId": "s", "path": "/srv/a.txt"}, "/srv/a.txt"),
]

RESULTS = [
    ("session/prompt", {"stopReason": "end_turn"}, "end_turn"),
    (
        "session/request_permission",
        {"outcome": {"outcome": "selected", "optionId": "allow"}},
        "selected allow",
    ),
    ("session/request_permission", {"outcome": {"outcome": "cancelled"}}, "cancelled"),
    ("terminal/create", {"terminalId": "t"}, "t"),
]

UNUSUAL: list[dict[str, Any]] = [
    {},
    {"prompt": 1, "update": [], "options": {}},
    {"prompt": [1, {}], "update": {"x": 1}},
]


@pytest.mark.parametrize(("method", "params", "text"), ARGUMENTS)
def test_a_request_is_shown_as_what_it_says(method: str, params: dict[str, Any], text: str) -> None:
    assert arguments_digest(method, params) == text


@pytest.mark.parametrize(("method", "result", "text"), RESULTS)
def test_an_answer_is_shown_as_what_it_says(method: str, result: dict[str, Any], text: str) -> None:
    assert result_digest(method, result) == text


@pytest.mark.parametrize("method", sorted({method for method, _, _ in ARGUMENTS}))
@pytest.mark.parametrize("params", UNUSUAL)
def test_an_unusual_message_is_shown_as_json(method: str, params: dict[str, Any]) -> None:
    assert arguments_digest(method, params) == ""
    assert result_digest(method, params) == ""
