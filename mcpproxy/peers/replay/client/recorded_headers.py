"""The headers of a replayed HTTP request: the recorded headers, adapted to the live server.

The session id and the protocol version are those of the live server. ``Mcp-Name``, which repeats a name in
the body (that of a tool, for instance), gets the name that is sent now. Headers of the connection, and
credentials, are left out. A message without recorded headers, such as one that was recorded on stdio, gets
those that the protocol requires in the live session.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from mcpproxy.judge.session.masked_values import is_masked
from mcpproxy.peers.replay.client.player import Send
from mcpproxy.peers.replay.recording import Exchange, RecordedSession
from mcpproxy.protocol.header_names import PROTOCOL_VERSION, SESSION_ID
from mcpproxy.protocol.jsonrpc import Message, Request, parse
from mcpproxy.protocol.mirrors import decoded, encoded
from mcpproxy.protocol.request_headers import mcp_name, negotiated_version

_NOT_REPLAYED: Final = frozenset(
    {
        "host", "content-length", "content-encoding", "transfer-encoding", "connection", "keep-alive", "te",
        "trailer", "upgrade", "expect", "accept-encoding", "authorization", "proxy-authorization", "cookie",
        "last-event-id",
    }
)  # fmt: skip
"""Headers that are not sent again: they belong to a connection or a stream, or are credentials."""


class LiveSession(Protocol):
    """The part of the session with the live server that the headers depend on."""

    session_id: str
    version: str

    def headers_for(self, message: Message | None = None) -> list[tuple[str, str]]:
        """Return the headers of a POST of ``message``, or if it is ``None``, of a request without a body."""
        ...


class HeaderWriter:
    """Builds the headers for one recorded session, which is played in the session ``live``."""

    def __init__(self, session: RecordedSession, live: LiveSession) -> None:
        self._live: Final = live
        self._recorded_id: Final = session.issued_session_id
        self._recorded_version: Final = next(
            (version for entry in session.messages if (version := negotiated_version(entry.raw))), ""
        )

    def headers(self, send: Send) -> list[tuple[str, str]]:
        """Return the headers of one request."""
        exchange = send.step.exchange if send.step else None
        if exchange is not None:
            return self._adapted_headers(exchange, send)
        return self._live.headers_for(parse(send.raw) if send.raw else None)

    def _adapted_headers(self, exchange: Exchange, send: Send) -> list[tuple[str, str]]:
        """Return the recorded headers with the session id, version and name of the live session."""
        headers: list[tuple[str, str]] = []
        for name, value in exchange.request.headers:
            match name.lower():
                case lower if lower == SESSION_ID:
                    if session_id := self._live_session_id(value):
                        headers.append((name, session_id))
                case lower if lower == PROTOCOL_VERSION and value == self._recorded_version:
                    headers.append((name, self._live.version or value))
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
            return self._live.session_id
        return recorded


def resumption_headers(headers: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the headers of a POST that the protocol does not define, for the resumption of its stream."""
    own = ("accept", "content-type")
    return [
        (name, value)
        for name, value in headers
        if name.lower() not in own and not name.lower().startswith("mcp-")
    ]


def _renamed(header: str, recorded: Message, live: Message) -> str:
    """Return the value of ``Mcp-Name`` for the live message; ``header`` is the recorded value."""
    if isinstance(recorded, Request) and isinstance(live, Request):
        name = mcp_name(live.method, live.params)
        if mcp_name(recorded.method, recorded.params) == decoded(header) and name is not None:
            return header if name == decoded(header) else encoded(name)
    return header
