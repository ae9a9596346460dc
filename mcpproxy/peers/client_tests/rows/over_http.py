"""Servers over HTTP whose responses are odd, or wrong: streams, empty bodies, statuses."""

import json
from typing import Final

from mcpproxy.peers.client_tests.http_peer import HttpScript, ScriptedEndpoint, ScriptedExchange
from mcpproxy.peers.client_tests.scenario import Scenario, Transport
from mcpproxy.protocol.jsonrpc import JSONObject

STAYS_S: Final = 1.0
"""Not 0, so that ``Scenario.is_silent`` is false: a client that sends nothing more is ended soon."""

RETRY_MS: Final = 700
"""How long a client has to wait before it resumes a stream."""

_HTTP: Final[tuple[Transport, ...]] = ("http",)
_DONE: Final[JSONObject] = {"content": [{"type": "text", "text": "done"}]}
_POLLS: Final = "2025-11-25"
"""The revision in which a stream may end before the answer."""


def _without_session(peer: ScriptedEndpoint, exchange: ScriptedExchange) -> bool:
    """Have no sessions: issue no session id, and ignore ids."""
    if exchange.method != "POST" or exchange.message is None:
        exchange.respond(405, headers={"Allow": "POST"})
    elif exchange.request_method:
        peer.answer_alone(exchange)
    else:
        exchange.respond(202)
    return True


def _empty_bodies(peer: ScriptedEndpoint, exchange: ScriptedExchange) -> bool:
    """Accept messages with bodies that are empty in different ways."""
    if exchange.method == "DELETE":
        peer.forget_sessions()
        exchange.respond(204)
        return True
    if exchange.method != "POST" or exchange.request_method:
        return False
    peer.seen["accepted"] += 1
    if peer.seen["accepted"] % 2:
        exchange.begin_chunks(202, {"Content-Type": "application/json"})
        exchange.end_chunks()
    else:
        exchange.respond(202, headers={"Content-Type": "text/plain; charset=utf-8"})
    return True


def _mixed(peer: ScriptedEndpoint, exchange: ScriptedExchange) -> bool:
    """Answer calls with a stream, and all else with JSON.

    The stream has a comment, an event without data, an unknown field, and data on two lines.
    """
    if exchange.request_method != "tools/call" or not peer.knows(exchange):
        return False
    assert exchange.message is not None
    half = f'data: {{"jsonrpc": "2.0", "id": {json.dumps(exchange.message["id"])},\r\n'
    exchange.begin_stream()
    exchange.send_piece(b": a comment\r\n\r\nid: 1\r\ndata:\r\n\r\n")
    exchange.send_piece(b"unknown: field\r\nevent: message\r\n" + half.encode())
    exchange.send_piece(b'data:"result": {"content": [{"type": "text", "text": "done"}]}}\r\nid: 2\r\n\r\n')
    exchange.end_chunks()
    return True


def _polled(peer: ScriptedEndpoint, exchange: ScriptedExchange) -> bool:
    """End the stream of a call after its first event; send the answer when the stream is resumed.

    In a revision that does not allow this, answer normally.
    """
    if exchange.request_method == "initialize":
        return False
    if exchange.request_method == "tools/call" and peer.knows(exchange) and _may_poll(exchange):
        assert exchange.message is not None
        peer.kept["answer"] = {"jsonrpc": "2.0", "id": exchange.message["id"], "result": _DONE}
        exchange.begin_stream()
        exchange.send_event(None, "call-0", RETRY_MS)
        exchange.end_chunks()
        return True
    if exchange.method != "GET" or exchange.headers.get("last-event-id") != "call-0":
        return False
    exchange.begin_stream()
    if answer := peer.kept.pop("answer", None):
        exchange.send_event(answer, "call-1")
    exchange.end_chunks()
    return True


def _cut(peer: ScriptedEndpoint, exchange: ScriptedExchange) -> bool:
    """Cut the connection of a call; send the answer when the stream is resumed."""
    if exchange.request_method == "tools/call" and peer.knows(exchange):
        assert exchange.message is not None
        peer.kept["answer"] = {"jsonrpc": "2.0", "id": exchange.message["id"], "result": _DONE}
        exchange.begin_stream()
        exchange.send_event(None, "call-0")
        exchange.cut_off()
        return True
    return exchange.method == "GET" and _polled(peer, exchange)


def _may_poll(exchange: ScriptedExchange) -> bool:
    return exchange.headers.get("mcp-protocol-version") == _POLLS


def _forgets(method: str) -> HttpScript:
    """Return a script that forgets all sessions at the first request of a method."""

    def script(peer: ScriptedEndpoint, exchange: ScriptedExchange) -> bool:
        if exchange.request_method == method and not peer.seen["forgotten"]:
            peer.seen["forgotten"] += 1
            peer.forget_sessions()
        return False

    return script


def _no_content(peer: ScriptedEndpoint, exchange: ScriptedExchange) -> bool:
    """Answer a notification with 204."""
    if exchange.method != "POST" or exchange.request_method or not peer.knows(exchange):
        return False
    exchange.respond(204)
    return True


HTTP_LAWFUL: Final = (
    Scenario(
        "no-session",
        "transport",
        "the server names no session, and takes nothing but POST",
        "tools/list",
        transports=_HTTP,
        http=_without_session,
    ),
    Scenario(
        "empty-bodies",
        "transport",
        "what the server accepts has empty bodies of several kinds",
        "tools/list",
        transports=_HTTP,
        http=_empty_bodies,
    ),
    Scenario(
        "mixed-answers",
        "transport",
        "a call is answered with a stream that has comments and split data, all else with JSON",
        "tools/call",
        transports=_HTTP,
        http=_mixed,
    ),
    Scenario(
        "polled-answer",
        "transport",
        f"the stream of a call ends, and the answer comes to who asks again after {RETRY_MS} ms",
        "tools/call",
        reaction="may wait",
        transports=_HTTP,
        http=_polled,
        stays_s=STAYS_S,
    ),
    Scenario(
        "resumed-answer",
        "transport",
        "the connection of a call is lost, and the answer comes to who asks again",
        "tools/call",
        reaction="may wait",
        transports=_HTTP,
        http=_cut,
        stays_s=STAYS_S,
    ),
    Scenario(
        "forgotten-session",
        "transport",
        "the server has forgotten the session when it is asked for tools",
        "tools/list",
        reaction="may give up",
        transports=_HTTP,
        http=_forgets("tools/list"),
    ),
    Scenario(
        "lost-session",
        "transport",
        "the server has forgotten the session at a call",
        "tools/call",
        reaction="may give up",
        transports=_HTTP,
        http=_forgets("tools/call"),
    ),
)
"""Servers that keep the protocol."""

HTTP_WRONG: Final = (
    Scenario(
        "no-content",
        "transport",
        "a notification is answered with 204",
        reaction="may give up",
        transports=_HTTP,
        http=_no_content,
    ),
)
"""Servers that break the protocol."""
