"""MCP inside ACP: the MCP messages that a connection of ACP carries in ``mcp/message``.

A client of ACP gives its agent an MCP server of ``"type": "acp"``. The agent is then the client of MCP, and
the client of ACP is the server. There are two drafts of this:

- By *server*, as in the ACP SDK 2.4 for TypeScript: the params name the ``serverId`` and the ``requestId`` of
  the MCP request, and the result has a ``result`` or an ``error`` of MCP. An error of ACP is then none of
  MCP, but one of what carries it. The revision of MCP is always 2026-07-28.
- By *connection*, as in the RFD and in the Rust SDK: ``mcp/connect`` opens a connection, which the params
  name. The result and the error are those of MCP, and a message of MCP has no id of its own.

Source: https://agentclientprotocol.com/rfds/mcp-over-acp; ``MessageMcpRequest`` and ``MessageMcpResponse``
in ``schema/v1/schema.unstable.json`` of ``@agentclientprotocol/sdk`` 2.4.0
"""

from typing import Any, Final, NamedTuple, cast

from mcpproxy.protocol.error_message import METHOD_NOT_FOUND
from mcpproxy.protocol.jsonrpc import (
    JSON,
    Absent,
    ErrorResponse,
    JSONObject,
    Notification,
    Request,
    RequestId,
    Response,
    Single,
    classify,
    request_id,
)

MESSAGE: Final = "mcp/message"
CONNECT: Final = "mcp/connect"
DISCONNECT: Final = "mcp/disconnect"
CARRIERS: Final = frozenset({MESSAGE, CONNECT, DISCONNECT})

SUCCESSOR: Final = ("_proxy/successor", "proxy/successor")
"""Messages of ACP that a proxy and its conductor send on for each other, in the SDK and in the RFD."""

WRAPPERS: Final = frozenset({MESSAGE, *SUCCESSOR})
"""Methods whose params are the ``method`` and the ``params`` of another message."""

SERVER_REVISION: Final = "2026-07-28"
"""The revision of every session by server."""

ERRORS: Final = {
    -32602: "invalidParams",
    -32800: "requestCancelled",
    -33000: "resourceLimitExceeded",
    -33001: "serverUnavailable",
    -33002: "backendFailed",
}
"""The errors of ACP for a request by server, with their names in the SDK (``McpBindingErrorCode``)."""

_LONGEST_NAME: Final = 1_000
"""How many characters the name or the id of a server or a connection has that is remembered."""

_NAMES: Final = CARRIERS.union(SUCCESSOR)
_OUTCOMES: Final = frozenset({"result", "error", "_meta"})


class Channel(NamedTuple):
    """Where a message belongs: to an MCP server, or to a connection to one."""

    by: str
    """``serverId`` or ``connectionId``."""
    name: str


class Carried(NamedTuple):
    """A message of MCP, and the JSON Pointer in the message of ACP to the place of its members."""

    message: Single
    at: str


def name_in(value: "JSON | Absent", *names: str) -> str | None:
    """Return the first of these members of ``value`` that is a text, ``None`` if there is none.

    A text of more than ``_LONGEST_NAME`` characters counts as none.
    """
    members = value if isinstance(value, dict) else {}
    for name in names:
        if isinstance(text := members.get(name), str) and len(text) <= _LONGEST_NAME:
            return text
    return None


def channel_of(params: "JSON | Absent") -> Channel | None:
    """Return the channel that the params of ``mcp/message`` name, ``None`` if they name none."""
    for by in ("serverId", "connectionId"):
        if (name := name_in(params, by)) is not None:
            return Channel(by, name)
    return None


def asked(message: Request | Notification) -> Carried | None:
    """Return what ``mcp/message`` asks or tells, ``None`` if its params are no message of MCP."""
    params = message.params
    if not isinstance(params, dict) or not isinstance(method := params.get("method"), str):
        return None
    value: JSONObject = {"jsonrpc": "2.0", "method": method}
    if isinstance(message, Request):
        if (id := id_of(message.id, params)) is None:
            return None
        value["id"] = id
    if params.get("params") is not None:
        value["params"] = params["params"]
    return Carried(classify(value, value, False), "/params")


class Innermost(NamedTuple):
    """What a request asks for in the end: its own method, or that of the message that it carries."""

    method: str
    is_carried: bool = False
    by_server: bool = False

    def owns(self, error: "JSON | Absent") -> bool:
        """Whether an error of JSON-RPC that answers the request is one of ``method``."""
        return not (self.by_server or (self.is_carried and _names_a_carrier(error)))


def innermost(method: str, params: object) -> Innermost:
    """Return what a request with this method and these params asks for in the end."""
    is_carried = by_server = False
    while method in WRAPPERS and isinstance(params, dict):
        members = cast("dict[str, Any]", params)
        if not isinstance(inner_method := members.get("method"), str):
            break
        is_carried, by_server = True, by_server or "serverId" in members
        method, params = inner_method, members.get("params")
    return Innermost(method, is_carried, by_server)


def answered(message: Response | ErrorResponse, channel: Channel, id: RequestId) -> Carried | None:
    """Return the answer of MCP in an answer to ``mcp/message``; ``id`` is that of the request of MCP.

    ``None`` if there is none: an error of what carries it, or a result without an outcome of MCP.
    """
    source, at = message.value, ""
    if isinstance(message, ErrorResponse) and _names_a_carrier(message.error):
        return None
    if channel.by == "serverId":
        source, at = message.result if isinstance(message, Response) else None, "/result"
    if not isinstance(source, dict):
        return None
    # A receiver prefers the result if there are both.
    name = next((name for name in ("result", "error") if name in source), None)
    if name is None:
        return None
    value: JSONObject = {"jsonrpc": "2.0", "id": id, name: source[name]}
    return Carried(classify(value, value, False), at)


def _names_a_carrier(error: "JSON | Absent") -> bool:
    """Whether an error says that a peer of ACP has no method of ``CARRIERS`` or ``SUCCESSOR``."""
    if not isinstance(error, dict) or error.get("code") != METHOD_NOT_FOUND:
        return False
    data = error.get("data")
    texts = (error.get("message"), data.get("method") if isinstance(data, dict) else data)
    return any(name in text for text in texts if isinstance(text, str) for name in _NAMES)


def id_of(id: RequestId | None, params: JSONObject) -> RequestId | None:
    """Return the id of the MCP request in a request of ACP with this id: its own, or without one that of
    ACP."""
    return request_id(params.get("requestId")) if "serverId" in params else id


def inside(method: str, params: object) -> tuple[str, object]:
    """Return the method and the params of the message in another one; what is given, if there is none."""
    if method in WRAPPERS and isinstance(params, dict):
        members = cast("dict[str, Any]", params)
        if isinstance(inner_method := members.get("method"), str):
            return inner_method, members.get("params")
    return method, cast("object", params)


def outcome_in(result: Any) -> dict[str, Any]:
    """Return the outcome of MCP in a result of one of ``WRAPPERS``: an object with ``result`` or ``error``
    alone.

    By connection, the result itself is that of MCP. No result of MCP has only the members of an outcome.
    """
    if isinstance(result, dict):
        members = cast("dict[str, Any]", result)
        if members.keys() <= _OUTCOMES and not members.keys().isdisjoint(("result", "error")):
            name = "result" if "result" in members else "error"
            return {name: members[name]}
    return {"result": result}
