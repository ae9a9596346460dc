"""The headers of a replayed HTTP request: the recorded headers, adapted to the live server.

The session id and the protocol version are those of the live server. A header that repeats a name of the body
gets the name that is sent now. Headers of the connection, and credentials, are left out. For a session
recorded on stdio the headers are those that its revision requires.
"""

from typing import Final

from mcpproxy.protocol.header_names import SESSION_ID
from mcpproxy.protocol.jsonrpc import Message, Request, parse
from mcpproxy.protocol.mirrors import Mirrors, decoded, encoded, listed_mirrors
from mcpproxy.protocol.request_headers import mcp_name, negotiated_version, required_headers
from mcpproxy.replay.client.player import Send
from mcpproxy.replay.recording import Exchange, RecordedSession
from mcpproxy.session.masked_values import is_masked

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
        self._mirrors: Final[dict[str, Mirrors]] = {}
        self._recorded_id: Final = session.issued_session_id
        self._recorded_version: Final = next(
            (version for entry in session.messages if (version := negotiated_version(entry.raw))), ""
        )

    def headers(self, send: Send) -> list[tuple[str, str]]:
        """Return the headers of one request."""
        exchange = send.step.exchange if send.step else None
        if exchange is not None:
            return self._adapted_headers(exchange, send)
        message = parse(send.raw) if send.raw else None
        return required_headers(message, self.session_id, self.version, self._mirrors)

    def learn(self, raw: bytes) -> None:
        """Note what a frame of the live server says about later requests: revision and annotated tools."""
        self.version = negotiated_version(raw) or self.version
        self._mirrors.update(listed_mirrors(raw))

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
                    headers.append((name, _renamed(value, parse(send.step.messages[0].raw), parse(send.raw))))
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


def _renamed(header: str, recorded: Message, live: Message) -> str:
    """Return the value of a header that repeats a name of the body: the name in the live body."""
    if isinstance(recorded, Request) and isinstance(live, Request):
        name = mcp_name(live.method, live.params)
        if mcp_name(recorded.method, recorded.params) == decoded(header) and name is not None:
            return header if name == decoded(header) else encoded(name)
    return header
