"""The headers of a replayed HTTP request: the recorded ones, adapted to the live server.

The session id and the protocol version are the live server's, a name in a header follows the body, and
headers that belong to the connection or are credentials are left out. For a session recorded on stdio the
headers are those that its revision requires.
"""

from base64 import b64encode
from typing import Final

from mcpproxy.protocol.jsonrpc import JSON, Absent, Batch, Notification, Request, Response, parse
from mcpproxy.protocol.mirrors import decoded, encoding_fault
from mcpproxy.protocol.revisions import VERSION_KEY
from mcpproxy.replay.client.player import Send
from mcpproxy.replay.http_parts import SESSION_ID
from mcpproxy.replay.recording import Exchange, RecordedSession
from mcpproxy.session.masked_values import is_masked

_NAMES: Final = ("name", "uri", "taskId")
_NOT_REPLAYED: Final = frozenset(
    {
        "host", "content-length", "content-encoding", "transfer-encoding", "connection", "keep-alive", "te",
        "trailer", "upgrade", "expect", "accept-encoding", "authorization", "proxy-authorization", "cookie",
        "last-event-id",
    }
)  # fmt: skip
"""Headers of the connection, and credentials, which have usually expired."""


class HeaderWriter:
    """Builds the headers for one session. Set ``session_id`` and ``version`` to those of the live server."""

    def __init__(self, session: RecordedSession) -> None:
        self.session_id = ""
        self.version = ""
        self._recorded_id: Final = session.issued_session_id
        self._recorded_version: Final = next(
            (version for entry in session.messages if (version := negotiated_version(entry.raw))), ""
        )

    def headers(self, send: Send) -> list[tuple[str, str]]:
        """Return the headers of one request."""
        exchange = send.step.exchange if send.step else None
        return self._required_headers(send.raw) if exchange is None else self._adapted_headers(exchange, send)

    def _adapted_headers(self, exchange: Exchange, send: Send) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        for name, value in exchange.request.headers:
            match name.lower():
                case lower if lower == SESSION_ID:
                    if live := self._id_for(value):
                        found.append((name, live))
                case "mcp-protocol-version" if value == self._recorded_version and self.version:
                    found.append((name, self.version))
                case "mcp-name" if send.step and send.step.messages:
                    found.append((name, _renamed(value, send.step.messages[0].raw, send.raw)))
                case lower if lower not in _NOT_REPLAYED and "masked(" not in value:
                    found.append((name, value))
                case _:
                    pass
        return found

    def _id_for(self, recorded: str) -> str:
        """Return the live session id in place of the recorded one; any other id is kept."""
        if recorded == self._recorded_id or is_masked(recorded) or not self._recorded_id:
            return self.session_id
        return recorded

    def _required_headers(self, raw: bytes) -> list[tuple[str, str]]:
        found = [("Accept", "application/json, text/event-stream")]
        if raw:
            found.append(("Content-Type", "application/json"))
        if self.session_id:
            found.append(("Mcp-Session-Id", self.session_id))
        message = parse(raw)
        params = message.params if isinstance(message, Request | Notification) else None
        version = _member_at(params, "_meta", VERSION_KEY)
        if isinstance(message, Request | Notification) and isinstance(version, str):
            found += [("MCP-Protocol-Version", version), ("Mcp-Method", message.method)]
            name = next((name for key in _NAMES if isinstance(name := _member_at(params, key), str)), None)
            if name is not None:
                found.append(("Mcp-Name", encoded_name(name)))
        elif self.version:
            found.append(("MCP-Protocol-Version", self.version))
        return found


def negotiated_version(raw: bytes) -> str:
    """Return the protocol version in a response to ``initialize``; empty for other messages."""
    if b"protocolVersion" not in raw:
        return ""
    message = parse(raw)
    for single in message.items if isinstance(message, Batch) else (message,):
        if isinstance(single, Response) and isinstance(
            version := _member_at(single.result, "protocolVersion"), str
        ):
            return version
    return ""


def _renamed(header: str, recorded: bytes, live: bytes) -> str:
    """Return a header that repeats a name from the recorded body, updated for the live body."""
    was, now = parse(recorded), parse(live)
    if isinstance(was, Request) and isinstance(now, Request):
        for key in _NAMES:
            name = _member_at(now.params, key)
            if _member_at(was.params, key) == decoded(header) and isinstance(name, str):
                return header if name == decoded(header) else encoded_name(name)
    return header


def encoded_name(name: str) -> str:
    """Return a name as a header value: unchanged, or in base64 if a header cannot carry it."""
    is_plain = not encoding_fault(name) and name == name.strip() and decoded(name) == name
    return name if is_plain else f"=?base64?{b64encode(name.encode()).decode()}?="


def _member_at(value: "JSON | Absent", *path: str) -> JSON:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return None if isinstance(value, Absent) else value
