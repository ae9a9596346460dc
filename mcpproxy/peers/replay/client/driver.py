"""Connect a player to a live server: send the player's messages, and pass the server's messages to it.

A live server is a real server that answers now, while the client is a recorded one. A ``Player`` decides what
that client sends. A ``Link`` is the connection to the server, on stdio or over HTTP. If the player makes no
progress for ``Player.patience_ns``, it continues without the messages that it waits for. The link is always
closed at the end, so that no process and no connection is left.
"""

import asyncio
import time
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from mcpproxy.judge.session.frame import FRAME_BYTES, Headers, SseEvent
from mcpproxy.peers.replay.client.player import Player, Send
from mcpproxy.protocol.message_parts import Key

TIMEOUT_S: Final = 30.0
"""The default time limit for one response."""

MOST_BYTES: Final = 256 << 20
"""How many more bytes of memory the messages of a server may take than those of the recorded server.

All messages are kept in memory, to be compared."""

_DRAIN_S: Final = 2.0
"""For how long messages of the server are received after the last message of the client."""


@dataclass(frozen=True, slots=True)
class ServerFrame:
    """A frame from the server. ``exchange`` is the number of its HTTP exchange in the live session, 0 for
    none; ``event`` is the SSE event that it came in, ``None`` without one.
    """

    raw: bytes
    exchange: int = 0
    event: SseEvent | None = None


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """The head of an HTTP response."""

    exchange: int
    status: int
    headers: Headers


@dataclass(frozen=True, slots=True)
class ExchangeOver:
    """The end of an HTTP exchange."""

    exchange: int


@dataclass(frozen=True, slots=True)
class RequestsRefused:
    """The end of an exchange in which the requests with these ids got no response.

    ``why`` is the reason: an HTTP status, with the server's text and the user's next step, or another
    failure.
    """

    keys: frozenset[Key]
    why: str


@dataclass(frozen=True, slots=True)
class ServerGone:
    """The end of the connection; ``why`` is a clause such as ``the server ended with exit code 1``."""

    why: str


LinkEvent: TypeAlias = ServerFrame | AnswerHead | ExchangeOver | RequestsRefused | ServerGone


class Link(Protocol):
    """A connection to a live server, over stdio or HTTP. The server's messages arrive in ``events``."""

    events: "asyncio.Queue[LinkEvent]"

    async def open(self) -> None:
        """Start or reach the server.

        Raises:
            McpProxyError: the server cannot be started.
        """
        ...

    async def send(self, send: Send) -> None:
        """Send a message, or over HTTP a request without a message."""
        ...

    async def end_input(self) -> None:
        """Tell the server that nothing more will be sent; it may still send messages."""
        ...

    async def close(self) -> None:
        """End the connection, by force if necessary."""
        ...


async def play(player: Player, link: Link, timeout_s: float = TIMEOUT_S) -> None:
    """Play the script, to its end or until the server makes the player stop.

    ``timeout_s`` is the time limit for one response.

    Raises:
        McpProxyError: the server cannot be started.
    """
    try:
        await link.open()
        await _run_script(player, link, int(timeout_s * 1e9))
        if not player.is_stopped:
            await link.end_input()
            await _drain(player, link, int(min(timeout_s, _DRAIN_S) * 1e9))
    finally:
        await link.close()


async def _run_script(player: Player, link: Link, timeout_ns: int) -> None:
    """Send and receive until the player is done, or the server has sent too much."""
    received, most_bytes = 0, MOST_BYTES + player.recorded_bytes
    sends = player.begin(time.monotonic_ns())
    progress, deadline_ns = -1, 0
    while True:
        for send in sends:
            await link.send(send)
        if player.is_done:
            return
        now_ns = time.monotonic_ns()
        if player.progress != progress:
            progress, deadline_ns = player.progress, now_ns + player.patience_ns(timeout_ns)
        link_event = await _next_event(link, deadline_ns - now_ns)
        now_ns = time.monotonic_ns()
        if isinstance(link_event, ServerFrame):
            received += len(link_event.raw) + FRAME_BYTES
        if received > most_bytes:
            player.stop(f"the server sent messages that take more than {most_bytes >> 20} MiB")
            return
        sends = [] if link_event is None else _pass_on(player, link_event, now_ns)
        if player.progress == progress and now_ns >= deadline_ns and not player.is_done:
            sends += player.give_up(now_ns)


async def _drain(player: Player, link: Link, limit_ns: int) -> None:
    """Receive the server's last messages for ``limit_ns`` at most, and send nothing more."""
    deadline_ns = time.monotonic_ns() + limit_ns
    while (remaining_ns := deadline_ns - time.monotonic_ns()) > 0:
        link_event = await _next_event(link, remaining_ns)
        if link_event is None or isinstance(link_event, ServerGone):
            return
        _pass_on(player, link_event, time.monotonic_ns())


async def _next_event(link: Link, limit_ns: int) -> LinkEvent | None:
    """Return the next event; ``None`` if none arrives within ``limit_ns``."""
    try:
        async with asyncio.timeout(max(0.0, limit_ns / 1e9)):
            return await link.events.get()
    except TimeoutError:
        return None


def _pass_on(player: Player, link_event: LinkEvent, now_ns: int) -> list[Send]:
    """Pass an event to the player, and return the messages to send because of it."""
    match link_event:
        case ServerFrame(raw, exchange, event):
            return player.receive(raw, now_ns, exchange, event)
        case AnswerHead(exchange, status, headers):
            player.receive_head(exchange, status, headers)
        case ExchangeOver(exchange):
            return player.end_exchange(exchange, now_ns)
        case RequestsRefused(keys, why):
            return player.refuse(keys, why, now_ns)
        case ServerGone(why):
            player.stop(why)
    return []
