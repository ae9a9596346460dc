"""The errors of JSON-RPC that mcpproxy sends itself, and the names of codes.

The relay answers with such errors, so nothing that takes long is imported here.
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
"""mcpproxy answers in the place of a peer: the first code that JSON-RPC leaves to implementations."""
NO_SESSION: Final = -32001
"""There is no session with the id of the request. The SDKs have this code; the specification has none."""
RESOURCE_NOT_FOUND: Final = -32002
"""Until revision 2026-07-28."""
URL_REQUIRED: Final = -32042
"""An elicitation by URL comes first. In revision 2025-11-25 alone."""
REQUEST_CANCELLED: Final = -32800
"""The request was cancelled: in ACP, and by servers of MCP that follow the Language Server Protocol."""

# Revision 2026-07-28
HEADER_MISMATCH: Final = -32020
MISSING_CAPABILITY: Final = -32021
UNSUPPORTED_VERSION: Final = -32022


def error_message(code: int, text: str, id: bytes | None = None, data: bytes | None = None) -> bytes:
    """Return an error as one line of JSON.

    ``id`` is the id of the request as the request has it, so that no number is rounded, and ``data`` is JSON.
    Without ``id`` the error has none: it answers no request, or one whose id is not known.

    Source: revision 2025-11-25, basic/transports, Sending Messages to the Server, 4.
    """
    return b'{"jsonrpc":"2.0",%b"error":{"code":%d,"message":%b%b}}' % (
        b"" if id is None else b'"id":%b,' % id,
        code,
        quoted(text).encode("utf-8", "replace"),
        b"" if data is None else b',"data":%b' % data,
    )
