"""The JSON-RPC errors that mcpproxy itself sends, and names for error codes.

The relay, the process that forwards the traffic, answers with such errors, so nothing that takes long is
imported here.
"""

from __future__ import annotations

from mcpproxy.base.json_string import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

# JSON-RPC 2.0, section 5.1
PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
JSON_RPC_CODES: Final = (PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR)

IN_PLACE_OF_PEER: Final = -32000
"""mcpproxy answers in place of a peer. The first code that JSON-RPC leaves to implementations."""
NO_SESSION: Final = -32001
"""The request names a session that does not exist. The SDKs use this code; the specification has none."""
RESOURCE_NOT_FOUND: Final = -32002
"""Up to revision 2025-11-25. Later revisions use ``INVALID_PARAMS`` instead."""
URL_REQUIRED: Final = -32042
"""The user must first complete an elicitation at a URL. Only in revision 2025-11-25."""
REQUEST_CANCELLED: Final = -32800
"""The request was cancelled: in ACP, and by servers of MCP that follow the Language Server Protocol."""

# Revision 2026-07-28
HEADER_MISMATCH: Final = -32020
MISSING_CAPABILITY: Final = -32021
UNSUPPORTED_VERSION: Final = -32022


def error_message(code: int, text: str, id: bytes | None = None, data: bytes | None = None) -> bytes:
    """Return an error response as one line of JSON, without a line feed.

    ``id`` is the JSON text of the id in the request, so that no number is rounded; ``data`` is JSON text,
    too. If ``id`` is ``None``, the response has no id: it answers no request, or one whose id is unknown.

    Source: revision 2025-11-25, basic/transports, Sending Messages to the Server, 4.
    """
    return b'{"jsonrpc":"2.0",%b"error":{"code":%d,"message":%b%b}}' % (
        b"" if id is None else b'"id":%b,' % id,
        code,
        quoted(text).encode("utf-8", "replace"),
        b"" if data is None else b',"data":%b' % data,
    )
