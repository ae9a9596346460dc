"""The proxy's answer in the server's place: an HTTP response with a JSON-RPC error that names mcpproxy.

The error has no id, because the relay does not read the JSON-RPC messages of the request. A gate (see
``mcpproxy.gate``) reads them, and provides the complete body.
"""

from __future__ import annotations

from mcpproxy.protocol.error_message import IN_PLACE_OF_PEER, error_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

ESTABLISHED: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"
"""The answer to a CONNECT."""

_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    403: "Forbidden",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    417: "Expectation Failed",
    431: "Request Header Fields Too Large",
    502: "Bad Gateway",
    504: "Gateway Timeout",
    505: "HTTP Version Not Supported",
}


def reply(status: int, why: str, *, has_body: bool = True, body: bytes = b"") -> bytes:
    """Return a complete response, after which the connection is closed. ``has_body`` is false for HEAD.

    ``status`` is one of ``_REASONS``. The body is ``body``, or else a JSON-RPC error with the text ``why``.
    """
    if not body:
        body = error_message(IN_PLACE_OF_PEER, f"mcpproxy: {why}")
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + (body if has_body else b"")
