"""A call of MCP inside ACP: its row names what is called, and how that ended.

The recorder's counts are compared with those of the view in every case.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mcpproxy.judge.session.outcomes import Outcome
from mcpproxy.read.view.calls import Call
from mcpproxy.read.view.causes import error_words
from tests.view.situations import C, Conversation, S
from tests.view.test_exchange_ends import opened

BY_SERVER = {"serverId": "s-1", "requestId": "r-1"}
BY_CONNECTION = {"connectionId": "c-1"}
SAID = {"content": [{"type": "text", "text": "sunny"}]}


FORECAST = {"method": "tools/call", "params": {"name": "forecast", "arguments": {"city": "Oslo"}}}
DISCOVER: dict[str, Any] = {"method": "server/discover", "params": {}}
NO_METHOD = {"error": {"code": -32601, "message": "Method not found"}}


def called(
    tmp_path: Path, channel: dict[str, str], *, inner: Mapping[str, Any] = FORECAST, **answer: Any
) -> Call:
    """The row of an ``inner`` request that the client of ACP answers with these members."""
    session = Conversation()
    session.asks(0, "initialize", {"protocolVersion": 1, "clientCapabilities": {}}, ms=1)
    session.answers(0, {"protocolVersion": 1, "agentCapabilities": {}}, ms=2)
    session.asks(5, "mcp/message", {**channel, **inner}, ms=3, by=S)
    session.says(C, {"jsonrpc": "2.0", "id": 5, **answer}, ms=4)
    return opened(tmp_path, session.closes(ms=5)).call(2)


@pytest.mark.parametrize(
    ("channel", "answer"), [(BY_SERVER, {"result": {"result": SAID}}), (BY_CONNECTION, {"result": SAID})]
)
def test_a_row_names_the_tool_and_shows_its_arguments_and_its_text(
    tmp_path: Path, channel: dict[str, str], answer: dict[str, Any]
) -> None:
    call = called(tmp_path, channel, **answer)
    assert (call.method, call.target) == ("mcp/message", "tools/call forecast")
    assert (call.arguments, call.result, call.outcome) == ('{"city":"Oslo"}', "sunny", Outcome.OK)


@pytest.mark.parametrize(
    ("channel", "answer"),
    [
        (BY_SERVER, {"result": {"result": SAID | {"isError": True}}}),
        (BY_CONNECTION, {"result": SAID | {"isError": True}}),
    ],
)
def test_an_error_of_the_tool_is_one(tmp_path: Path, channel: dict[str, str], answer: dict[str, Any]) -> None:
    assert called(tmp_path, channel, **answer).outcome is Outcome.TOOL_ERROR


def test_an_error_of_mcp_has_its_code(tmp_path: Path) -> None:
    call = called(tmp_path, BY_SERVER, result={"error": {"code": -32602, "message": "no such city"}})
    assert (call.outcome, error_words(call)) == (Outcome.RPC_ERROR, "error -32602: no such city")


@pytest.mark.parametrize("channel", [BY_SERVER, BY_CONNECTION])
def test_the_data_of_an_error_of_mcp_is_told(tmp_path: Path, channel: dict[str, str]) -> None:
    error = {"error": {"code": -32602, "message": "no such city", "data": {"city": "Oslo"}}}
    call = called(tmp_path, channel, **({"result": error} if channel is BY_SERVER else error))
    assert call.cause == 'data: {"city":"Oslo"}'


@pytest.mark.parametrize(
    ("channel", "answer"), [(BY_SERVER, {"result": NO_METHOD}), (BY_CONNECTION, NO_METHOD)]
)
def test_a_server_may_have_no_method_that_asks_for_its_revisions(
    tmp_path: Path, channel: dict[str, str], answer: dict[str, Any]
) -> None:
    call = called(tmp_path, channel, inner=DISCOVER, **answer)
    assert (call.outcome, call.error_code) == (Outcome.DECLINED, -32601)


def test_an_error_of_acp_says_nothing_of_what_a_server_of_mcp_has(tmp_path: Path) -> None:
    assert called(tmp_path, BY_SERVER, inner=DISCOVER, **NO_METHOD).outcome is Outcome.RPC_ERROR


def test_a_peer_that_has_no_mcp_message_is_no_server_that_declines(tmp_path: Path) -> None:
    error = {"code": -32601, "message": "Method not found", "data": {"method": "mcp/message"}}
    assert called(tmp_path, BY_CONNECTION, inner=DISCOVER, error=error).outcome is Outcome.RPC_ERROR


def test_what_asks_for_revisions_and_meets_an_internal_error_failed(tmp_path: Path) -> None:
    error = {"code": -32603, "message": "Internal error"}
    assert called(tmp_path, BY_CONNECTION, inner=DISCOVER, error=error).outcome is Outcome.RPC_ERROR


def test_an_error_of_acp_is_named_as_that(tmp_path: Path) -> None:
    call = called(tmp_path, BY_SERVER, error={"code": -33001, "message": "unavailable"})
    words = "error -33001: of ACP (serverUnavailable), not of MCP: unavailable"
    assert (call.outcome, error_words(call)) == (Outcome.RPC_ERROR, words)


def test_a_code_that_is_no_number_has_no_name(tmp_path: Path) -> None:
    call = called(tmp_path, BY_SERVER, error={"code": [1], "message": "no"})
    assert error_words(call) == "error without an integer code: of ACP, not of MCP: no"


def test_by_connection_an_error_may_be_of_either(tmp_path: Path) -> None:
    call = called(tmp_path, BY_CONNECTION, error={"code": -32602, "message": "unknown"})
    assert error_words(call) == "error -32602: unknown"


def test_a_result_without_an_outcome_is_shown_as_it_is(tmp_path: Path) -> None:
    call = called(tmp_path, BY_SERVER, result={"result": None})
    assert (call.outcome, call.result) == (Outcome.OK, "null")


def test_a_notification_is_named_too(tmp_path: Path) -> None:
    session = Conversation()
    told = BY_SERVER | {"method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}}
    session.notifies("mcp/message", told, ms=1, by=C)
    call = opened(tmp_path, session.closes(ms=5)).call(1)
    assert (call.method, call.target) == ("mcp/message", "notifications/progress")
    assert call.arguments == '{"progressToken":1,"progress":1}'


@pytest.mark.parametrize("prefix", ["_", ""])
def test_what_a_proxy_sends_on_is_named(tmp_path: Path, prefix: str) -> None:
    session = Conversation()
    opening = {"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": {"name": "editor"}}
    session.asks(0, f"{prefix}proxy/initialize", opening, ms=1)
    session.answers(0, {"protocolVersion": 1, "agentCapabilities": {}}, ms=2)
    prompt = {"sessionId": "one", "prompt": [{"type": "text", "text": "build"}]}
    session.asks(1, f"{prefix}proxy/successor", {"method": "session/prompt", "params": prompt}, ms=3, by=S)
    session.answers(1, {"stopReason": "end_turn"}, ms=4, by=C)
    inner = {"method": "tools/call", "params": {"name": "forecast", "arguments": {"city": "Oslo"}}}
    carried = {"method": "mcp/message", "params": BY_CONNECTION | inner}
    session.asks(2, f"{prefix}proxy/successor", carried, ms=5)
    view = opened(tmp_path, session.closes(ms=6))
    (summary, *_) = view.sessions
    assert (summary.protocol, summary.client) == ("acp", "editor")
    prompted, called = view.call(2), view.call(3)
    assert (prompted.target, prompted.arguments, prompted.result) == ("session/prompt", "build", "end_turn")
    assert called.target == "mcp/message tools/call forecast"


@pytest.mark.parametrize(
    ("answer", "outcome", "result"),
    [
        ({"result": SAID | {"isError": True}}, Outcome.TOOL_ERROR, "sunny"),
        ({"error": {"code": -32602, "message": "no such city"}}, Outcome.RPC_ERROR, "no such city"),
    ],
)
def test_what_a_proxy_sends_on_ends_as_what_is_in_it(
    tmp_path: Path, answer: dict[str, Any], outcome: Outcome, result: str
) -> None:
    session = Conversation()
    session.asks(0, "proxy/initialize", {"protocolVersion": 1, "clientCapabilities": {}}, ms=1)
    session.answers(0, {"protocolVersion": 1, "agentCapabilities": {}}, ms=2)
    inner = {"method": "tools/call", "params": {"name": "forecast", "arguments": {"city": "Oslo"}}}
    session.asks(2, "proxy/successor", {"method": "mcp/message", "params": BY_SERVER | inner}, ms=3)
    session.answers(2, answer, ms=4)
    call = opened(tmp_path, session.closes(ms=5)).call(2)
    assert (call.outcome, call.result) == (outcome, result)
    assert call.error_code == (-32602 if "error" in answer else None)


def test_what_carries_itself_is_no_deeper_than_one_message(tmp_path: Path) -> None:
    params: dict[str, Any] = {"method": "mcp/message"}
    for _ in range(200):
        params = {"method": "mcp/message", "params": params}
    session = Conversation()
    session.asks(1, "mcp/message", params, ms=1)
    assert opened(tmp_path, session.closes(ms=5)).call(1).target == "mcp/message"
