"""Checks the head of a stateless request, and chooses the HTTP status for a JSON-RPC error.

A stateless request belongs to no session: its ``_meta`` has the revision and the client's capabilities.

Source: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#server-validation
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from mcpproxy.protocol.error_message import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    UNSUPPORTED_VERSION,
)
from mcpproxy.protocol.header_names import PARAM_PREFIX
from mcpproxy.protocol.jsonrpc import JSON, Message, Notification, Request
from mcpproxy.protocol.message_parts import error_of, member
from mcpproxy.protocol.meta_keys import CAPABILITIES_KEY, VERSION_KEY
from mcpproxy.protocol.mirrors import Mirrors, decoded, encoding_fault, means_same, mirrored_arguments
from mcpproxy.protocol.request_headers import mcp_name, stateless_version

_STATUS: Final = {
    METHOD_NOT_FOUND: 404,
    HEADER_MISMATCH: 400,
    MISSING_CAPABILITY: 400,
    UNSUPPORTED_VERSION: 400,
}
"""Code of a JSON-RPC error -> the HTTP status of its response."""


def mismatch(
    message: Request | Notification, fields: Mapping[str, str], mirrors: Mapping[str, Mirrors]
) -> str:
    """Return how the header ``fields`` (with names in lower case) contradict a message; empty if they do not.

    ``mirrors`` maps the name of a tool to the arguments that a call of it repeats in headers.
    """
    version = fields.get("mcp-protocol-version")
    if version is None:
        return "MCP-Protocol-Version is missing"
    if version != stateless_version(message):
        return "MCP-Protocol-Version is not the version in _meta"
    if "mcp-method" not in fields:
        return "Mcp-Method is missing"
    if fields["mcp-method"] != message.method:
        return "Mcp-Method is not the method"
    if (name := mcp_name(message.method, message.params)) is None:
        return ""
    if fault := _field_fault(fields.get("mcp-name"), name):
        return f"Mcp-Name {fault}"
    if message.method != "tools/call" or name not in mirrors:
        return ""
    return _parameter_mismatch(member(message.params, "arguments"), fields, mirrors[name])


def status_of(message: Message, request: Message) -> int:
    """Return the HTTP status for the response ``message`` to a stateless request.

    The status is 200 for a result and for errors that have no status of their own. An error for invalid
    parameters gets 400 only if ``request`` lacks the client's capabilities, because its ``_meta`` is then
    incomplete.
    """
    code = member(error_of(message), "code")
    if code == INVALID_PARAMS and isinstance(request, Request) and not _has_capabilities(request):
        return 400
    return _STATUS.get(code, 200) if isinstance(code, int) else 200


def rejection_of(
    message: Request, fields: Mapping[str, str], mirrors: Mapping[str, Mirrors]
) -> "Rejection | None":
    """Return why a stateless request must not be passed on; ``None`` if it may be.

    ``fields`` and ``mirrors`` are as for ``mismatch``.
    """
    if message.method == "initialize":
        return Rejection(404, METHOD_NOT_FOUND, "this revision has no initialize")
    if not stateless_version(message):
        return Rejection(400, INVALID_PARAMS, f"params._meta has no {VERSION_KEY}")
    if why := mismatch(message, fields, mirrors):
        return Rejection(400, HEADER_MISMATCH, why)
    return None


class Rejection(NamedTuple):
    """Why a request is not passed on, with the HTTP status and the JSON-RPC code of the error."""

    status: int
    code: int
    why: str


def _has_capabilities(request: Request) -> bool:
    params = request.params
    meta = member(params, "_meta")
    return isinstance(meta, dict) and CAPABILITIES_KEY in meta


def _parameter_mismatch(arguments: JSON, fields: Mapping[str, str], mirrors: Mirrors) -> str:
    for _, header, value in mirrored_arguments(mirrors, arguments):
        field = fields.get(PARAM_PREFIX + header.lower())
        if value is None and field is None:
            continue
        if value is None:
            return f"Mcp-Param-{header} repeats an argument that is absent"
        if fault := _field_fault(field, value):
            return f"Mcp-Param-{header} {fault}"
    return ""


def _field_fault(field: str | None, value: JSON) -> str:
    """Return what is wrong with a field that has to repeat ``value``; empty if nothing is."""
    if field is None:
        return "is missing"
    if fault := encoding_fault(field):
        return fault
    text = decoded(field)
    return "" if text is not None and means_same(text, value) else "is not the value in the body"
