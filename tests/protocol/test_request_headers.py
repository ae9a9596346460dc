"""The headers that each revision requires of a request, as a table."""

import json
from typing import Any, Final

import pytest

from mcpproxy.protocol.jsonrpc import parse
from mcpproxy.protocol.meta_keys import VERSION_KEY
from mcpproxy.protocol.mirrors import Mirrors
from mcpproxy.protocol.request_headers import negotiated_version, required_headers
from mcpproxy.protocol.revisions import REVISIONS, STATEFUL

NEWEST: Final = REVISIONS[-1]
BOTH: Final = "application/json, text/event-stream"
POST: Final = {"Accept": BOTH, "Content-Type": "application/json"}

MIRRORS: Final = {
    "weigh": Mirrors(((("thing",), "Thing"), (("box", "count"), "Count"), (("sure",), "Sure")), ()),
    "count": Mirrors(((("n",), "N"),), ()),
}

STATELESS_CALLS: Final[list[tuple[str, dict[str, Any], dict[str, str]]]] = [
    ("server/discover", {}, {}),
    ("tools/list", {"name": "weigh"}, {}),
    ("tools/call", {"name": "add"}, {"Mcp-Name": "add"}),
    ("prompts/get", {"name": "a b"}, {"Mcp-Name": "a b"}),
    ("resources/read", {"uri": "file:///a"}, {"Mcp-Name": "file:///a"}),
    ("resources/read", {"name": "a"}, {}),
    ("tasks/get", {"taskId": "t-1"}, {"Mcp-Name": "t-1"}),
    ("tasks/update", {"taskId": "t-1", "inputResponses": {}}, {"Mcp-Name": "t-1"}),
    ("tasks/cancel", {"taskId": "t-1"}, {"Mcp-Name": "t-1"}),
    ("house/open", {"name": "door"}, {}),
    ("tools/call", {"name": " ö"}, {"Mcp-Name": "=?base64?IMO2?="}),
    ("tools/call", {"name": "=?base64?x?="}, {"Mcp-Name": "=?base64?PT9iYXNlNjQ/eD89?="}),
    ("tools/call", {"name": "\ud800"}, {"Mcp-Name": "=?base64?Pw==?="}),
    ("tools/call", {"name": 7}, {}),
    (
        "tools/call",
        {"name": "weigh", "arguments": {"thing": "tea", "box": {"count": 3}, "sure": True}},
        {"Mcp-Name": "weigh", "Mcp-Param-Thing": "tea", "Mcp-Param-Count": "3", "Mcp-Param-Sure": "true"},
    ),
    (
        "tools/call",
        {"name": "weigh", "arguments": {"thing": None, "box": 1, "sure": False}},
        {"Mcp-Name": "weigh", "Mcp-Param-Sure": "false"},
    ),
    ("tools/call", {"name": "weigh"}, {"Mcp-Name": "weigh"}),
    ("prompts/get", {"name": "weigh", "arguments": {"thing": "tea"}}, {"Mcp-Name": "weigh"}),
    ("tools/call", {"name": "count", "arguments": {"n": 42.0}}, {"Mcp-Name": "count", "Mcp-Param-N": "42"}),
    ("tools/call", {"name": "count", "arguments": {"n": {}}}, {"Mcp-Name": "count"}),
]
"""Method, params -> the headers that a stateless request has besides version and method."""


def headers(message: Any, session_id: str = "", version: str = "") -> dict[str, str]:
    parsed = None if message is None else parse(json.dumps(message).encode())
    return dict(required_headers(parsed, session_id, version, MIRRORS))


def asked(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


@pytest.mark.parametrize(("method", "params", "repeated"), STATELESS_CALLS)
def test_a_stateless_request_repeats_what_it_names(
    method: str, params: dict[str, Any], repeated: dict[str, str]
) -> None:
    message = asked(method, {**params, "_meta": {VERSION_KEY: NEWEST}})
    assert headers(message) == {
        **POST,
        "MCP-Protocol-Version": NEWEST,
        "Mcp-Method": method,
        **repeated,
    }


@pytest.mark.parametrize("version", STATEFUL)
def test_a_request_in_a_session_names_session_and_revision(version: str) -> None:
    call = asked("tools/call", {"name": "weigh", "arguments": {"thing": "tea"}})
    assert headers(asked("initialize", {"protocolVersion": version})) == POST
    in_session = {"Mcp-Session-Id": "s", "MCP-Protocol-Version": version}
    assert headers(call, "s", version) == {**POST, **in_session}
    assert headers(None, "s", version) == {"Accept": "text/event-stream", **in_session}


@pytest.mark.parametrize("body", [[], {"jsonrpc": "2.0", "id": 1, "result": {}}, 5])
def test_what_is_no_call_has_the_headers_of_the_session(body: Any) -> None:
    assert headers(body, "s", "2025-11-25") == {
        **POST,
        "Mcp-Session-Id": "s",
        "MCP-Protocol-Version": "2025-11-25",
    }


def test_the_negotiated_revision_is_that_of_the_answer() -> None:
    answer = {"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": "2025-06-18"}}
    assert negotiated_version(json.dumps(answer).encode()) == "2025-06-18"
    assert negotiated_version(json.dumps(asked("initialize", {"protocolVersion": "x"})).encode()) == ""
    assert negotiated_version(b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":5}}') == ""
