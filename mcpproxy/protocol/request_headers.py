"""The HTTP headers that MCP requires of a client's request, by revision.

| since | header | source |
| --- | --- | --- |
| 2025-03-26 | ``Accept``, ``Content-Type``; ``Mcp-Session-Id`` once the server has named a session | [1] |
| 2025-06-18 | ``MCP-Protocol-Version``: after the handshake, the negotiated revision | [2] |
| 2026-07-28 | ``MCP-Protocol-Version`` as in ``_meta``; ``Mcp-Method``; ``Mcp-Name``; ``Mcp-Param-*`` | [3] |
| 2026-07-28 | ``Mcp-Name`` for tasks, too | [4] |

Servers of an earlier revision ignore headers of a later one. So the headers up to 2025-06-18 are sent in
every revision if their values are known. Those of 2026-07-28 are sent with stateless messages only.

Source: https://modelcontextprotocol.io/specification/
[1] 2025-03-26/basic/transports, sections Sending Messages to the Server, and Session Management;
[2] 2025-06-18/basic/transports, section Protocol Version Header;
[3] 2026-07-28/basic/transports/streamable-http, section Request Metadata;
[4] https://github.com/modelcontextprotocol/ext-tasks, specification/2026-07-28/tasks.md, section Streamable
HTTP: Routing Headers.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from mcpproxy.protocol.jsonrpc import JSON, Absent, Message, Notification, Request, Response, parse
from mcpproxy.protocol.message_parts import TARGETS, member, singles, text_member
from mcpproxy.protocol.meta_keys import VERSION_KEY
from mcpproxy.protocol.mirrors import Mirrors, encoded, mirrored_arguments
from mcpproxy.protocol.revisions import STATELESS

MCP_NAME_SOURCE: Final[Mapping[str, str]] = {
    **{method: TARGETS[method] for method in ("tools/call", "prompts/get", "resources/read")},
    **dict.fromkeys(("tasks/get", "tasks/update", "tasks/cancel"), "taskId"),
}
"""Method -> the member of its params that ``Mcp-Name`` repeats."""

_EVENT_STREAM: Final = "text/event-stream"
_JSON: Final = "application/json"


def required_headers(
    message: Message | None, session_id: str, version: str, mirrors: Mapping[str, Mirrors]
) -> list[tuple[str, str]]:
    """Return the headers of a POST of ``message``, or if it is ``None``, of a request without a body.

    ``session_id`` and ``version`` (the negotiated revision) are empty if they are unknown. ``mirrors`` has,
    by tool name, the arguments that a call of a listed tool repeats in headers.
    """
    headers = [("Accept", _EVENT_STREAM if message is None else f"{_JSON}, {_EVENT_STREAM}")]
    if message is not None:
        headers.append(("Content-Type", _JSON))
    if session_id:
        headers.append(("Mcp-Session-Id", session_id))
    call = message if isinstance(message, Request | Notification) else None
    own_version = stateless_version(call)
    if version := own_version or version:
        headers.append(("MCP-Protocol-Version", version))
    if call is not None and (own_version or version in STATELESS):
        headers += _routing_headers(call, mirrors)
    return headers


def _routing_headers(
    call: Request | Notification, mirrors: Mapping[str, Mirrors]
) -> Iterator[tuple[str, str]]:
    """Yield the headers that repeat the method of a stateless message, its name, and arguments of a tool."""
    yield "Mcp-Method", call.method
    if (name := mcp_name(call.method, call.params)) is None:
        return
    yield "Mcp-Name", encoded(name)
    if call.method == "tools/call" and name in mirrors:
        for _, header, value in mirrored_arguments(mirrors[name], member(call.params, "arguments")):
            if isinstance(value, float) and value.is_integer():
                value = int(value)
            if isinstance(value, bool | int | float | str):
                text = str(value).lower() if isinstance(value, bool) else str(value)
                yield f"Mcp-Param-{header}", encoded(text)


def mcp_name(method: str, params: "JSON | Absent") -> str | None:
    """Return the text that ``Mcp-Name`` repeats in a stateless request; ``None`` if ``params`` lack it, or
    messages of this method need no ``Mcp-Name``.
    """
    source = MCP_NAME_SOURCE.get(method)
    return text_member(params, source) if source else None


def stateless_version(call: Request | Notification | None) -> str:
    """Return the revision that a stateless request or notification names; empty for every other message."""
    return (text_member(call.params, "_meta", VERSION_KEY) if call else None) or ""


def negotiated_version(raw: bytes) -> str:
    """Return the ``protocolVersion`` in a result, which is that of ``initialize``; empty if there is none."""
    if b"protocolVersion" not in raw:
        return ""
    results = (single.result for single in singles(parse(raw)) if isinstance(single, Response))
    return next((version for result in results if (version := text_member(result, "protocolVersion"))), "")
