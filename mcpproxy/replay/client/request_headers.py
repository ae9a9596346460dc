"""The headers of a replayed HTTP request: the recorded headers, adapted to the live server.

The session id and the protocol version are those of the live server. A header that repeats a name of the body
gets the name that is sent now. Headers of the connection, and credentials, are left out. For a session
recorded on stdio the headers are those that its revision requires.
"""

from base64 import b64encode
from typing import Final

from mcpproxy.protocol.header_names import SESSION_ID
from mcpproxy.protocol.jsonrpc import Notification, Request, Response, parse
from mcpproxy.protocol.message_parts import member, singles
from mcpproxy.protocol.mirrors import decoded, encoding_fault
from mcpproxy.protocol.revisions import VERSION_KEY
from mcpproxy.replay.client.player import Send
from mcpproxy.replay.recording import Exchange, RecordedSession
from mcpproxy.session.masked_values import is_masked

_NAMES: Final = ("name", "uri", "taskId")
"""Members of params that the header ``Mcp-Name`` repeats."""
_NOT_REPLAYED: Final = frozenset(
    {
        "host", "content-length", "content-encoding", "transfer-encoding", "connection", "keep-alive", "te",
        "trailer", "upgrade", "expect", "accept-encoding", "authorization", "proxy-authorization", "cookie",
        "last-event-id",
    }
)  # fmt: skip
"""Headers that are not sent again: they belong to the connection, or are credentials, which expire."""


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
        """Return the recorded headers with the session id, version and name of the live session."""
        headers: list[tuple[str, str]] = []
        for name, value in exchange.request.headers:
            match name.lower():
                case lower if lower == SESSION_ID:
                    if session_id := self._live_session_id(value):
                        headers.append((name, session_id))
                case "mcp-protocol-version" if value == self._recorded_version and self.version:
                    headers.append((name, self.version))
                case "mcp-name" if send.step and send.step.messages:
                    headers.append((name, _renamed(value, send.step.messages[0].raw, send.raw)))
                case lower if lower not in _NOT_REPLAYED and "masked(" not in value:
                    headers.append((name, value))
                case _:
                    pass
        return headers

    def _live_session_id(self, recorded: str) -> str:
        """Return the live session id, or ``recorded`` itself if that is not the id of the recorded session.

        A masked id counts as the id of the session. So does every id if the recording does not show that id.
        """
        if recorded == self._recorded_id or is_masked(recorded) or not self._recorded_id:
            return self.session_id
        return recorded

    def _required_headers(self, raw: bytes) -> list[tuple[str, str]]:
        """Return the headers that a message has to have, for a session that was recorded on stdio."""
        headers = [("Accept", "application/json, text/event-stream")]
        if raw:
            headers.append(("Content-Type", "application/json"))
        if self.session_id:
            headers.append(("Mcp-Session-Id", self.session_id))
        message = parse(raw)
        params = message.params if isinstance(message, Request | Notification) else None
        version = member(params, "_meta", VERSION_KEY)
        if isinstance(message, Request | Notification) and isinstance(version, str):
            headers += [("MCP-Protocol-Version", version), ("Mcp-Method", message.method)]
            name = next((name for key in _NAMES if isinstance(name := member(params, key), str)), None)
            if name is not None:
                headers.append(("Mcp-Name", encoded_name(name)))
        elif self.version:
            headers.append(("MCP-Protocol-Version", self.version))
        return headers


def negotiated_version(raw: bytes) -> str:
    """Return the protocol version in a response to ``initialize``; empty for other messages."""
    if b"protocolVersion" not in raw:
        return ""
    message = parse(raw)
    for single in singles(message):
        if isinstance(single, Response) and isinstance(
            version := member(single.result, "protocolVersion"), str
        ):
            return version
    return ""


def _renamed(header: str, recorded: bytes, live: bytes) -> str:
    """Return the value of a header that repeats a name of the body: the name in the live body."""
    recorded_request, live_request = parse(recorded), parse(live)
    if isinstance(recorded_request, Request) and isinstance(live_request, Request):
        for key in _NAMES:
            name = member(live_request.params, key)
            if member(recorded_request.params, key) == decoded(header) and isinstance(name, str):
                return header if name == decoded(header) else encoded_name(name)
    return header


def encoded_name(name: str) -> str:
    """Return a name as a header value: unchanged, or in base64 if a header cannot contain it."""
    is_plain = not encoding_fault(name) and name == name.strip() and decoded(name) == name
    return name if is_plain else f"=?base64?{b64encode(name.encode()).decode()}?="
