"""Helpers for replay over HTTP: the headers and revisions in recorded exchanges."""

from collections.abc import Iterable
from typing import Final

from mcpproxy.peers.replay.recording import Exchange
from mcpproxy.peers.replay.server.replay_source import ReplaySource
from mcpproxy.protocol.header_names import PROTOCOL_VERSION, SESSION_ID
from mcpproxy.protocol.jsonrpc import Response
from mcpproxy.protocol.message_parts import member

_NOT_REPLAYED: Final = frozenset(
    {
        "connection", "keep-alive", "transfer-encoding", "content-length", "content-encoding", "date",
        "server", "set-cookie", "www-authenticate", SESSION_ID,
    }
)  # fmt: skip
"""Response headers that are not replayed: about the connection, the time, credentials or the session."""


def headers_of(exchange: Exchange | None) -> dict[str, str]:
    """Return the recorded response headers that can be replayed, with their names in lower case.

    A challenge (``WWW-Authenticate``) is replayed only if mcpproxy made or altered the response.
    """
    recorded = exchange.headers if exchange else ()
    left_out = _NOT_REPLAYED - {"www-authenticate"} if exchange and exchange.is_altered else _NOT_REPLAYED
    return {
        name.lower(): value
        for name, value in recorded
        if name.lower() not in left_out and "masked(" not in value
    }


def next_unused(exchanges: Iterable[Exchange], used: set[int]) -> Exchange | None:
    """Return the first unused exchange, or the last one if all are used; mark it as used.

    Return ``None`` if there is no exchange.
    """
    chosen = None
    for exchange in exchanges:
        chosen = exchange
        if exchange.number not in used:
            break
    if chosen is not None:
        used.add(chosen.number)
    return chosen


def known_versions(replay_source: ReplaySource) -> frozenset[str]:
    """Return the protocol revisions that the recorded client named in headers, or that were negotiated."""
    sessions = (replay_source.unnamed, *replay_source.sessions)
    in_headers = (
        value
        for session in sessions
        for exchange in session.exchanges.values()
        for name, value in exchange.request.headers
        if name.lower() == PROTOCOL_VERSION
    )
    negotiated = (
        member(entry.message.result, "protocolVersion")
        for session in sessions
        for entry in session.messages
        if isinstance(entry.message, Response)
    )
    return frozenset((*in_headers, *(version for version in negotiated if isinstance(version, str))))
