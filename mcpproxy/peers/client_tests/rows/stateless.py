"""Servers of the revisions without a handshake, and older servers that get ``server/discover`` first."""

from typing import Final

from mcpproxy.peers.client_tests.peer import TOOL, PeerRequest, ScriptedServer
from mcpproxy.peers.client_tests.scenario import Scenario
from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.protocol.meta_keys import SUBSCRIPTION_ID_KEY
from mcpproxy.protocol.methods import LISTEN
from mcpproxy.protocol.revisions import STATEFUL, STATELESS, Era

_STATELESS: Final[tuple[Era, ...]] = ("stateless",)
_BOTH: Final[tuple[Era, ...]] = ("stateful", "stateless")

_FORM: Final[JSONObject] = {
    "message": "Which city?",
    "requestedSchema": {"type": "object", "properties": {"city": {"type": "string"}}},
}
_INPUTS: Final[dict[str, JSONObject]] = {
    "elicitation": {"method": "elicitation/create", "params": {"mode": "form", **_FORM}},
    "sampling": {
        "method": "sampling/createMessage",
        "params": {
            "messages": [{"role": "user", "content": {"type": "text", "text": "Say yes"}}],
            "maxTokens": 5,
        },
    },
    "roots": {"method": "roots/list"},
}
"""By capability of the client: a request for input that it allows."""


def _only_old(peer: ScriptedServer, request: PeerRequest) -> None:
    peer.refuse_version(request, request.version, STATEFUL[-2:])


def _only_old_discovered(peer: ScriptedServer, request: PeerRequest) -> None:
    peer.answer_discover(request, STATEFUL[-2:])


def _bad_params(peer: ScriptedServer, request: PeerRequest) -> None:
    peer.refuse(request, -32602, "Invalid request parameters")


def _silent(peer: ScriptedServer, request: PeerRequest) -> None:
    del peer, request


def _needs_input(peer: ScriptedServer, request: PeerRequest) -> None:
    """Ask for the first input that the request allows, and answer the call that brings it."""
    able = next((name for name in _INPUTS if name in request.capabilities), "")
    if not request.version or not able or "inputResponses" in request.params:
        peer.answer_normally(request)
    else:
        needed: JSONObject = {"needed": _INPUTS[able]}
        state = "opaque \u00fc 1"
        peer.send_result(
            request, {"resultType": "input_required", "inputRequests": needed, "requestState": state}
        )


def _needs_time(peer: ScriptedServer, request: PeerRequest) -> None:
    """Ask for no input, only for the same request with the state."""
    if not request.version or "requestState" in request.params:
        peer.answer_normally(request)
    else:
        peer.send_result(request, {"resultType": "input_required", "requestState": "opaque 1"})


def _listens(peer: ScriptedServer, request: PeerRequest) -> None:
    """Acknowledge a subscription, report what it asks for, and end it."""
    meta: JSONObject = {"_meta": {SUBSCRIPTION_ID_KEY: request.id}}
    wanted = request.params.get("notifications")
    of_tools = isinstance(wanted, dict) and wanted.get("toolsListChanged") is True
    granted: JSONObject = {"toolsListChanged": True} if of_tools else {}
    peer.notify("notifications/subscriptions/acknowledged", {**meta, "notifications": granted})
    if of_tools:
        peer.notify("notifications/tools/list_changed", meta)
    peer.send_result(request, meta)


def _fresh(peer: ScriptedServer, request: PeerRequest) -> None:
    peer.send_result(request, {"tools": [TOOL], "ttlMs": 3_600_000, "cacheScope": "public"})


def _header_tool(peer: ScriptedServer, request: PeerRequest) -> None:
    text: JSONObject = {"type": "string", "x-mcp-header": "Text"}
    peer.send_result(
        request, {"tools": [{**TOOL, "inputSchema": {"type": "object", "properties": {"text": text}}}]}
    )


def _wrong_header_tool(peer: ScriptedServer, request: PeerRequest) -> None:
    text: JSONObject = {"type": "string", "x-mcp-header": "not a name"}
    wrong: JSONObject = {"name": "wrong", "inputSchema": {"type": "object", "properties": {"text": text}}}
    peer.send_result(request, {"tools": [wrong, TOOL]})


NO_HANDSHAKE: Final = Scenario(
    "no-handshake",
    "lifecycle",
    f"the server speaks {STATELESS[-1]} only",
    "tools/list",
    reaction="may give up",
    eras=_STATELESS,
)
"""The ordinary server for a client that knows no sessions."""

STATELESS_LAWFUL: Final = (
    NO_HANDSHAKE,
    Scenario("both-eras", "lifecycle", "the server speaks all revisions", "tools/list", eras=_BOTH),
    Scenario(
        "probe-of-old",
        "lifecycle",
        "server/discover is refused with the older revisions that the server speaks",
        "server/discover",
        {"server/discover": _only_old},
        "may give up",  # to use a version that the server names is a SHOULD
        after="ordinary",
    ),
    Scenario(
        "probe-finds-old",
        "lifecycle",
        "server/discover is answered with older revisions only",
        "server/discover",
        {"server/discover": _only_old_discovered},
        "may give up",
        after="ordinary",
    ),
    Scenario(
        "probe-of-params",
        "lifecycle",
        "server/discover is refused because of its params",
        "server/discover",
        {"server/discover": _bad_params},
        after="ordinary",
    ),
    Scenario(
        "probe-unanswered",
        "lifecycle",
        "server/discover is never answered",
        "server/discover",
        {"server/discover": _silent},
        reaction="may wait",
        after="ordinary",
    ),
    Scenario(
        "input-required",
        "sequence",
        "a call is answered with a request for input that the client declares",
        "tools/call",
        {"tools/call": _needs_input},
        "may give up",
        declared=tuple(_INPUTS),
        eras=_STATELESS,
    ),
    Scenario(
        "state-only",
        "sequence",
        "a call is answered with a state to be sent again, and nothing to be asked",
        "tools/call",
        {"tools/call": _needs_time},
        "may give up",
        eras=_STATELESS,
    ),
    Scenario(
        "subscription",
        "sequence",
        "a subscription is acknowledged, reports a change, and ends",
        LISTEN,
        {LISTEN: _listens},
        "may give up",
        capabilities={"tools": {"listChanged": True}},
        eras=_STATELESS,
    ),
    Scenario(
        "caching-hints",
        "tools",
        "the list may be kept for an hour",
        "tools/list",
        {"tools/list": _fresh},
        "may give up",
        eras=_STATELESS,
    ),
    Scenario(
        "header-argument",
        "transport",
        "an argument has to be repeated in a header",
        "tools/call",
        {"tools/list": _header_tool},
        "may give up",
        transports=("http",),
        eras=_STATELESS,
    ),
)
"""Servers that keep the protocol."""

STATELESS_WRONG: Final = (
    Scenario(
        "wrong-header-argument",
        "tools",
        "a tool names a header that cannot be, and another tool is right",
        "tools/list",
        {"tools/list": _wrong_header_tool},
        "may give up",
        transports=("http",),
        eras=_STATELESS,
    ),
)
"""Servers that break the protocol."""
