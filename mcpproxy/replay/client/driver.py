"""Drives a player against a live server: what it sends goes out, what comes is heard, nothing lasts for ever.

A ``Link`` is the way to the server, stdio or HTTP. The driver waits for news of it as long as the player has
patience. However it ends, the link is closed: no process and no connection is left.
"""

import asyncio
import time
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from mcpproxy.replay.client.player import Player, Send
from mcpproxy.session.frame import Headers, SseEvent

TIMEOUT_S: Final = 30.0
"""How long an answer may take if nothing else is said."""


@dataclass(frozen=True, slots=True)
class Came:
    """A frame of the server's."""

    raw: bytes
    exchange: int = 0
    event: SseEvent | None = None


@dataclass(frozen=True, slots=True)
class Head:
    """The head of an HTTP answer."""

    exchange: int
    status: int
    headers: Headers


@dataclass(frozen=True, slots=True)
class Over:
    """An HTTP exchange is over, and nothing more comes of it."""

    exchange: int


@dataclass(frozen=True, slots=True)
class Gone:
    """The server has gone, and why: ``the server ended (exit code 1)``."""

    why: str


News: TypeAlias = Came | Head | Over | Gone


class Link(Protocol):
    """A way to a live server."""

    news: "asyncio.Queue[News]"

    async def open(self) -> None:
        """Reach the server.

        Raises:
            McpProxyError: it cannot be started.
        """
        ...

    async def send(self, send: Send) -> None:
        """Send a message; what happens to it is news."""
        ...

    async def hang_up(self) -> None:
        """Say that nothing more will be sent; the server may still say something."""
        ...

    async def close(self) -> None:
        """End it, by force if it has to be."""
        ...


async def play(player: Player, link: Link, timeout_s: float = TIMEOUT_S) -> None:
    """Play the whole script, or as much of it as the server lets us.

    Raises:
        McpProxyError: the server cannot be started.
    """
    try:
        await link.open()
        await _converse(player, link, int(timeout_s * 1e9))
        if not player.is_stopped:
            await link.hang_up()
            await _listen(player, link, int(min(timeout_s, _FAREWELL_S) * 1e9))
    finally:
        await link.close()


_FAREWELL_S: Final = 2.0


async def _converse(player: Player, link: Link, timeout_ns: int) -> None:
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
        news = await _next(link, deadline_ns - now_ns)
        now_ns = time.monotonic_ns()
        sends = [] if news is None else _take(player, news, now_ns)
        if player.progress == progress and now_ns >= deadline_ns and not player.is_done:
            sends += player.give_up(now_ns)


async def _listen(player: Player, link: Link, for_ns: int) -> None:
    """Hear the server out, and say nothing more."""
    until_ns = time.monotonic_ns() + for_ns
    while (left_ns := until_ns - time.monotonic_ns()) > 0:
        news = await _next(link, left_ns)
        if news is None or isinstance(news, Gone):
            return
        _take(player, news, time.monotonic_ns())


async def _next(link: Link, within_ns: int) -> News | None:
    try:
        async with asyncio.timeout(max(0.0, within_ns / 1e9)):
            return await link.news.get()
    except TimeoutError:
        return None


def _take(player: Player, news: News, now_ns: int) -> list[Send]:
    match news:
        case Came(raw, exchange, event):
            return player.hear(raw, now_ns, exchange, event)
        case Head(exchange, status, headers):
            player.head(exchange, status, headers)
        case Over(exchange):
            return player.ended(exchange, now_ns)
        case Gone(why):
            player.stop(why)
    return []
