"""Helpers for replay over HTTP: which headers are replayed, and which requests a local server refuses."""

from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from mcpproxy.base.authority import is_loopback
from mcpproxy.protocol.header_names import SESSION_ID
from mcpproxy.replay.recording import Exchange
from mcpproxy.replay.server.replay_source import ReplaySource

_NOT_REPLAYED: Final = frozenset(
    {
        "connection", "keep-alive", "transfer-encoding", "content-length", "content-encoding", "date",
        "server", "set-cookie", "www-authenticate", SESSION_ID,
    }
)  # fmt: skip
"""Response headers that are not replayed: they describe the connection or the time, or are secret."""


def headers_of(exchange: Exchange | None) -> dict[str, str]:
    """Return the recorded response headers that can be replayed, with their names in lower case.

    A challenge is replayed only if it is a fault's.
    """
    recorded = exchange.headers if exchange else ()
    left_out = _NOT_REPLAYED - {"www-authenticate"} if exchange and exchange.is_altered else _NOT_REPLAYED
    return {
        name.lower(): value
        for name, value in recorded
        if name.lower() not in left_out and "masked(" not in value
    }


def path_of(exchange: Exchange) -> str:
    """Return the requested path."""
    try:
        return urlsplit(exchange.request.target).path or "/"
    except ValueError:
        return "/"


def is_resumption(exchange: Exchange) -> bool:
    """Whether the exchange is a GET that resumes another stream."""
    return any(name.lower() == "last-event-id" for name, _ in exchange.request.headers)


def uses_http_sse(replay_source: ReplaySource) -> bool:
    """Whether the recording is of HTTP+SSE, the transport before Streamable HTTP."""
    return any(
        entry.event is not None and entry.event.name == "endpoint"
        for session in (replay_source.unnamed, *replay_source.sessions)
        for entry in session.messages
    )


def next_unused(exchanges: Iterable[Exchange], used: set[int]) -> Exchange | None:
    """Return the first unused exchange, or the last one if all are used; mark it as used."""
    chosen = None
    for exchange in exchanges:
        chosen = exchange
        if exchange.number not in used:
            break
    if chosen is not None:
        used.add(chosen.number)
    return chosen


def foreign_site(origin: str, host: str) -> str | None:
    """Return the host in ``origin`` or ``host`` that is not loopback; ``None`` if both are loopback or empty.

    A request to a loopback server with such a host comes from a foreign web page: a browser lets any page
    send requests to 127.0.0.1, and the owner of a domain can make its name resolve to that address.
    """
    for url in (origin, f"//{host}"):
        try:
            hostname = urlsplit(url).hostname
        except ValueError:
            return url
        if hostname and not is_loopback(hostname):
            return hostname
    return None
