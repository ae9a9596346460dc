"""Scenarios with servers that keep the protocol, most of them in unusual ways."""

from typing import Final

from mcpproxy.peers.client_tests.faulty import LAWFUL_FAULTS
from mcpproxy.peers.client_tests.peer import TOOL, PeerRequest, ScriptedServer
from mcpproxy.peers.client_tests.rows.authorized import AUTHORIZED
from mcpproxy.peers.client_tests.rows.listed import LISTED
from mcpproxy.peers.client_tests.rows.over_http import HTTP_LAWFUL
from mcpproxy.peers.client_tests.rows.stateless import STATELESS_LAWFUL
from mcpproxy.peers.client_tests.scenario import Scenario
from mcpproxy.protocol.error_message import INVALID_PARAMS
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.revisions import STATEFUL

PAGES: Final = 20
"""How many pages the longest list has."""

_REQUESTS: Final[dict[str, tuple[str, JSONObject | None]]] = {
    "roots": ("roots/list", None),
    "sampling": (
        "sampling/createMessage",
        {"messages": [{"role": "user", "content": {"type": "text", "text": "Say yes"}}], "maxTokens": 5},
    ),
    "elicitation": (
        "elicitation/create",
        {"message": "Which city?", "requestedSchema": {"type": "object", "properties": {}}},
    ),
}
"""By capability of the client: the request that it allows, and its params."""


def _oldest(peer: ScriptedServer, request: PeerRequest) -> None:
    peer.accept_initialize(request, STATEFUL[0])


def _tool(number: int) -> JSONObject:
    return {**TOOL, "name": f"echo{number}"}


def _two_pages(peer: ScriptedServer, request: PeerRequest) -> None:
    _answer_page(peer, request, [_tool(1)], [_tool(2)])


def _empty_page(peer: ScriptedServer, request: PeerRequest) -> None:
    _answer_page(peer, request, [], [TOOL])


def _answer_page(peer: ScriptedServer, request: PeerRequest, first: list[JSON], second: list[JSON]) -> None:
    """Answer with one of two pages; refuse any other cursor, so that no client goes in a circle."""
    match request.params.get("cursor"):
        case None:
            peer.send_result(request, {"tools": first, "nextCursor": "second"})
        case "second":
            peer.send_result(request, {"tools": second})
        case _:
            peer.refuse(request, INVALID_PARAMS, "Unknown cursor")


def _many_pages(peer: ScriptedServer, request: PeerRequest) -> None:
    cursor = request.params.get("cursor")
    number = int(cursor) if isinstance(cursor, str) and cursor.isdecimal() else 1
    more: JSONObject = {"nextCursor": str(number + 1)} if number < PAGES else {}
    peer.send_result(request, {"tools": [_tool(number)], **more})


def _changed(peer: ScriptedServer, request: PeerRequest) -> None:
    peer.answer_normally(request)
    if peer.seen["tools/list"] == 1:
        for _ in range(3):
            peer.notify("notifications/tools/list_changed")


def _pings(peer: ScriptedServer, request: PeerRequest) -> None:
    for _ in range(2):
        peer.ask("ping")
    peer.answer_normally(request)


def _asks_declared(peer: ScriptedServer, request: PeerRequest) -> None:
    for capability, (method, params) in _REQUESTS.items():
        if capability in peer.client_capabilities:
            peer.ask(method, params)
    peer.answer_normally(request)


def _asks_unknown(peer: ScriptedServer, request: PeerRequest) -> None:
    peer.ask("mcpproxy/no-such-method")
    peer.answer_normally(request)


def _progress(peer: ScriptedServer, request: PeerRequest) -> None:
    meta = request.params.get("_meta")
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    if token is not None:
        for step in (1, 2.5, 1000):
            peer.notify("notifications/progress", {"progressToken": token, "progress": step})
    peer.answer_normally(request)


def _unknown_members(peer: ScriptedServer, request: PeerRequest) -> None:
    content: JSONObject = {
        "type": "text",
        "text": "done",
        "x-colour": "green",
        "_meta": {"example.com/a": [1]},
    }
    peer.send_result(request, {"content": [content], "x-more": {"a": None}, "_meta": {"example.com/b": 1}})


def _out_of_order(peer: ScriptedServer, request: PeerRequest) -> None:
    """Answer two calls in reverse; answer a call alone if no second one comes before our ping is answered."""
    peer.kept.append(request)
    if len(peer.kept) == 1:
        peer.ask("ping")  # gives the client time for a second call, which then waits
        if not peer.answer_waiting("tools/call"):
            peer.answer_normally(peer.kept.pop())
    else:
        for call in reversed(peer.kept):
            peer.answer_normally(call)
        peer.kept.clear()


def _logs(peer: ScriptedServer, request: PeerRequest) -> None:
    for level in ("debug", "emergency"):
        peer.notify("notifications/message", {"level": level, "data": {"step": [1, None]}})
    peer.answer_normally(request)


def _accepted(peer: ScriptedServer, request: PeerRequest) -> None:
    peer.send_result(request, {})


def _large(peer: ScriptedServer, request: PeerRequest) -> None:
    peer.send_text(request, "0123456789abcdef" * (1 << 16))


def _not_ascii(peer: ScriptedServer, request: PeerRequest) -> None:
    peer.send_text(request, "\u2028 \u0000 \U0001f600 \ufeff")


LAWFUL: Final = (
    Scenario("ordinary", "lifecycle", "an ordinary server with one tool"),
    Scenario(
        "old-revision",
        "lifecycle",
        f"the server offers {STATEFUL[0]}, whatever the client wants",
        scripts={"initialize": _oldest},
        reaction="may give up",
    ),
    Scenario("no-capabilities", "lifecycle", "the server declares no capability", capabilities={}, tool=""),
    Scenario(
        "two-pages",
        "sequence",
        "the list has two pages",
        "tools/list",
        {"tools/list": _two_pages},
        tool="echo2",
    ),
    Scenario("empty-page", "sequence", "the first page is empty", "tools/list", {"tools/list": _empty_page}),
    Scenario(
        "many-pages",
        "sequence",
        f"the list has {PAGES} pages",
        "tools/list",
        {"tools/list": _many_pages},
        tool=f"echo{PAGES}",
    ),
    Scenario(
        "list-changed",
        "sequence",
        "the list is said to have changed, three times at once",
        "tools/list",
        {"tools/list": _changed},
        capabilities={"tools": {"listChanged": True}},
    ),
    Scenario(
        "ping-in-call", "jsonrpc", "the server pings during a call", "tools/call", {"tools/call": _pings}
    ),
    Scenario(
        "ping-in-list",
        "jsonrpc",
        "the server pings while it is asked for tools",
        "tools/list",
        {"tools/list": _pings},
    ),
    Scenario(
        "asks-in-call",
        "lifecycle",
        "the server asks for what the client declares",
        "tools/call",
        {"tools/call": _asks_declared},
        declared=tuple(_REQUESTS),
    ),
    Scenario(
        "unknown-request",
        "jsonrpc",
        "the server sends a request with a method that no client has",
        "tools/call",
        {"tools/call": _asks_unknown},
    ),
    Scenario(
        "out-of-order",
        "jsonrpc",
        "two calls are answered in reverse",
        "tools/call",
        {"tools/call": _out_of_order},
        calls=2,
    ),
    Scenario(
        "progress-without-total",
        "sequence",
        "progress has no total, and the client is told if it gave a token",
        "tools/call",
        {"tools/call": _progress},
    ),
    Scenario(
        "log-messages",
        "sequence",
        "the server logs during a call",
        "tools/call",
        {"tools/call": _logs, "logging/setLevel": _accepted},
        capabilities={"tools": {}, "logging": {}},
    ),
    Scenario(
        "unknown-members",
        "tools",
        "a result has unknown members",
        "tools/call",
        {"tools/call": _unknown_members},
    ),
    Scenario("large-result", "robustness", "a result has 1 MiB", "tools/call", {"tools/call": _large}),
    Scenario("odd-text", "robustness", "a text has odd characters", "tools/call", {"tools/call": _not_ascii}),
    Scenario("slow-start", "robustness", "the server starts after two seconds", delay_s=2),
    Scenario(
        "stderr-flood",
        "transport",
        "the server writes 1 MiB to stderr first",
        transports=("stdio",),
        flood=16_384,
    ),
    *LAWFUL_FAULTS,
    *LISTED,
    *HTTP_LAWFUL,
    *AUTHORIZED,
    *STATELESS_LAWFUL,
)
"""Servers that keep the protocol. The first is the ordinary one, with which the others are compared."""
