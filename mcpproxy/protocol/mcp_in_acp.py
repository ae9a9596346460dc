"""MCP inside ACP: the MCP messages that an ACP connection carries in ``mcp/message``.

An ACP client gives its agent an MCP server of ``"type": "acp"``. The agent is then the MCP client, and the
ACP client is the MCP server. There are two drafts of this:

- By *server*, as in the ACP SDK 2.4 for TypeScript: the params have the ``serverId``, and the ``requestId``
  of the MCP request. The result has a ``result`` or an ``error`` of MCP. An ACP error is then not the MCP
  server's answer, but says that carrying the message failed. The MCP revision is always 2026-07-28.
- By *connection*, as in the RFD (the proposal) and in the Rust SDK: ``mcp/connect`` opens a connection, and
  the params have its ``connectionId``. The result and the error are those of MCP, and an MCP message has no
  id of its own.

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
"""The methods of ACP that carry MCP messages, and open and close the connections for them."""

SUCCESSOR: Final = ("_proxy/successor", "proxy/successor")
"""The message in which an ACP proxy and its conductor (the program that runs a chain of proxies) pass on
another message: its names in the SDK and in the RFD."""

WRAPPERS: Final = frozenset({MESSAGE, *SUCCESSOR})
"""Methods whose params are the ``method`` and the ``params`` of another message."""

SERVER_REVISION: Final = "2026-07-28"
"""The MCP revision of every session by server."""

ERRORS: Final = {
    -32602: "invalidParams",
    -32800: "requestCancelled",
    -33000: "resourceLimitExceeded",
    -33001: "serverUnavailable",
    -33002: "backendFailed",
}
"""The ACP errors for a request by server, with their names in the SDK (``McpBindingErrorCode``)."""

_LONGEST_NAME: Final = 1_000
"""In characters: a longer name or id of a server or a connection is ignored."""

_CARRIER_METHODS: Final = CARRIERS.union(SUCCESSOR)
_OUTCOMES: Final = frozenset({"result", "error", "_meta"})
"""The members that the result of an ``mcp/message`` by server may have."""


class Channel(NamedTuple):
    """The MCP server, or the connection to one, that an ``mcp/message`` is for."""

    by: str
    """The member of the params that names it: ``serverId`` or ``connectionId``."""
    name: str
    """The value of that member."""


class Carried(NamedTuple):
    """An MCP message, and the JSON Pointer to the object with its members in the ACP message."""

    message: Single
    at: str


def name_in(value: "JSON | Absent", *names: str) -> str | None:
    """Return the first of these members of ``value`` that is a string; ``None`` if there is none.

    A string of more than ``_LONGEST_NAME`` characters does not count.
    """
    members = value if isinstance(value, dict) else {}
    for name in names:
        if isinstance(text := members.get(name), str) and len(text) <= _LONGEST_NAME:
            return text
    return None


def channel_of(params: "JSON | Absent") -> Channel | None:
    """Return the channel that the params of ``mcp/message`` name; ``None`` if they name none."""
    for by in ("serverId", "connectionId"):
        if (name := name_in(params, by)) is not None:
            return Channel(by, name)
    return None


def carried_call(message: Request | Notification) -> Carried | None:
    """Return the MCP request or notification in an ``mcp/message``; ``None`` if its params have none.

    It is ``None``, too, if the id of a request is not valid (``mcp_id``).
    """
    params = message.params
    if not isinstance(params, dict) or not isinstance(method := params.get("method"), str):
        return None
    value: JSONObject = {"jsonrpc": "2.0", "method": method}
    if isinstance(message, Request):
        if (id := mcp_id(message.id, params)) is None:
            return None
        value["id"] = id
    if params.get("params") is not None:
        value["params"] = params["params"]
    return Carried(classify(value, value, False), "/params")


class Innermost(NamedTuple):
    """The innermost method of a request: its own, or if it carries another message, that message's.

    ``is_carried`` says that the request carries another message; ``by_server`` that a message on the way to
    the innermost has a ``serverId``.
    """

    method: str
    is_carried: bool = False
    by_server: bool = False

    def owns(self, error: "JSON | Absent") -> bool:
        """Whether a JSON-RPC error that answers the request comes from ``method``, not from a carrier."""
        return not (self.by_server or (self.is_carried and _names_a_carrier(error)))


def innermost(method: str, params: object) -> Innermost:
    """Return the innermost method of a request with this method and these params."""
    is_carried = by_server = False
    while method in WRAPPERS and isinstance(params, dict):
        members = cast("dict[str, Any]", params)
        if not isinstance(inner_method := members.get("method"), str):
            break
        is_carried, by_server = True, by_server or "serverId" in members
        method, params = inner_method, members.get("params")
    return Innermost(method, is_carried, by_server)


def carried_answer(message: Response | ErrorResponse, channel: Channel, id: RequestId) -> Carried | None:
    """Return the MCP answer in an answer to ``mcp/message``; ``id`` is the id of the MCP request.

    Return ``None`` if there is none: for an error of the carrier, or a result without an MCP outcome.
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
    """Whether an error says that an ACP peer does not have a method of ``CARRIERS`` or ``SUCCESSOR``."""
    if not isinstance(error, dict) or error.get("code") != METHOD_NOT_FOUND:
        return False
    data = error.get("data")
    texts = (error.get("message"), data.get("method") if isinstance(data, dict) else data)
    return any(name in text for text in texts if isinstance(text, str) for name in _CARRIER_METHODS)


def mcp_id(id: RequestId | None, params: JSONObject) -> RequestId | None:
    """Return the id of the MCP request in the ACP request ``id``; ``None`` if there is no valid id.

    By connection it is the same id; by server it is the ``requestId`` in the params.
    """
    return request_id(params.get("requestId")) if "serverId" in params else id


def inner_message(method: str, params: object) -> tuple[str, object]:
    """Return method and params of the message that a message carries; the arguments if it carries none."""
    if method in WRAPPERS and isinstance(params, dict):
        members = cast("dict[str, Any]", params)
        if isinstance(inner_method := members.get("method"), str):
            return inner_method, members.get("params")
    return method, cast("object", params)


def outcome_in(result: Any) -> dict[str, Any]:
    """Return the MCP outcome in a result of one of ``WRAPPERS``: an object with only ``result`` or ``error``.

    By connection, the result itself is the MCP result. No MCP result consists only of members of an outcome.
    """
    if isinstance(result, dict):
        members = cast("dict[str, Any]", result)
        if members.keys() <= _OUTCOMES and not members.keys().isdisjoint(("result", "error")):
            name = "result" if "result" in members else "error"
            return {name: members[name]}
    return {"result": result}
