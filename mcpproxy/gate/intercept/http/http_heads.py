"""Change the header fields of HTTP heads. All other lines of a head stay as they are."""

import re
from http import HTTPStatus

from mcpproxy.gate.intercept.fault_actions import FaultAction
from mcpproxy.protocol.error_message import IN_PLACE_OF_PEER, error_message
from mcpproxy.record.relay.http.reply import reply

_CHALLENGE = ("WWW-Authenticate", 'Bearer error="invalid_token"')
"""The challenge in a response with status 401, if the rule has no ``WWW-Authenticate`` header."""


def new_head(action: FaultAction, head: bytes) -> bytes:
    """Return a head without the fields that an action drops, and with those that it sets."""
    names = {name.lower().encode("latin-1") for name, _ in action.headers}
    first, *lines = head[:-4].split(b"\r\n")
    kept = [line for line in lines if line.partition(b":")[0].strip().lower() not in names]
    kept += [_field(name, value) for name, value in action.headers if value is not None]
    return b"\r\n".join((first, *kept)) + b"\r\n\r\n"


def with_length(head: bytes, length: int) -> bytes:
    """Return ``head`` with ``length`` as its ``Content-Length``; unchanged if it has no such field."""
    return re.sub(rb"(?i)(\r\nContent-Length:)[^\r]*", rb"\g<1> %d" % length, head, count=1)


def status_head(action: FaultAction, body: bytes = b"") -> tuple[bytes, bytes]:
    """Return the head and body of the response that a ``status`` action asks for.

    Without ``body``, the body is a JSON-RPC error with the phrase of the status.
    """
    if not body:
        body = error_message(IN_PLACE_OF_PEER, reason(action.count))
    headers = status_headers(action)
    fields = [_field(name, value) for name, value in headers]
    first = b"HTTP/1.1 %d %b" % (action.count, reason(action.count).encode())
    own = (b"Content-Type: application/json", b"Content-Length: %d" % len(body), b"Connection: close")
    return b"\r\n".join((first, *fields, *own)) + b"\r\n\r\n", body


def status_reply(action: FaultAction, why: str, body: bytes) -> bytes:
    """Return the complete response with which an action answers a request; its status is 200 by default.

    ``why`` and ``body`` are as for ``reply``.
    """
    status = action.count or 200
    fields = b"".join(b"\r\n" + _field(name, value) for name, value in status_headers(action))
    _, _, rest = reply(200, why, body=body).partition(b"\r\n")
    return f"HTTP/1.1 {status} {reason(status)}".encode() + fields + b"\r\n" + rest


def status_headers(action: FaultAction) -> tuple[tuple[str, str], ...]:
    """Return the header fields of an action's response; a response with status 401 always has a challenge."""
    headers = tuple((name, value) for name, value in action.headers if value is not None)
    is_challenged = any(name.lower() == "www-authenticate" for name, _ in headers)
    return headers if action.count != HTTPStatus.UNAUTHORIZED or is_challenged else (*headers, _CHALLENGE)


def reason(status: int) -> str:
    """Return the reason phrase of an HTTP status; ``Fault`` for an unknown one."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Fault"


def _field(name: str, value: str) -> bytes:
    return f"{name}: {value}".encode("latin-1", "replace")
