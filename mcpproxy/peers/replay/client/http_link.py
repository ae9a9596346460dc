"""A link to a live server over HTTP: it sends an HTTP request for each message, and reads all streams.

The link supports Streamable HTTP, with or without sessions, and HTTP+SSE, where an ``endpoint`` event on the
stream names the URL for POSTs. A stream that ends before the response to its request is resumed.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Final

from mcpproxy.base.upstream.settings import USUAL, UpstreamSettings
from mcpproxy.judge.session.frame import SERVER, SseEvent
from mcpproxy.peers.client.http_connection import Tape
from mcpproxy.peers.client.http_session import ClientSession, SessionExchange
from mcpproxy.peers.client.refusals import HttpRefusal, refusal, without_message
from mcpproxy.peers.client.remote_server import (
    ForeignTargetError,
    HttpResponse,
    RemoteError,
    RemoteServer,
    TooLongError,
    UnreachableError,
)
from mcpproxy.peers.replay.client.driver import (
    AnswerHead,
    ExchangeOver,
    LinkEvent,
    RequestsRefused,
    ServerFrame,
    ServerGone,
)
from mcpproxy.peers.replay.client.player import Send
from mcpproxy.peers.replay.client.recorded_headers import HeaderWriter, resumption_headers
from mcpproxy.peers.replay.recording import RecordedSession
from mcpproxy.protocol.jsonrpc import Malformed, Message
from mcpproxy.record.framing.sse import SseBlock

_SETTLE_S: Final = 2.0
"""How long a message without a response may take before the next message is sent."""
_CLOSE_S: Final = 2.0
"""How long the DELETE at the end of a session may take."""
_MAX_UNREAD: Final = 1000
"""How many events may wait in the queue. If the queue is full, no more is read from the server."""


class ReplayedExchange(SessionExchange):
    """An HTTP exchange; ``number`` is its number in the live session, 0 if it is not part of that.

    ``settled`` is set when the next message may be sent. ``location`` is the URL that the response redirects
    to. ``page`` is the body of a response with a status from 300 on, or a body that is not a message, such as
    an HTML page. The latter is compared only if the recorded server sent such a body, too
    (``compares_pages``).
    """

    def __init__(
        self, link: "HttpLink", number: int = 0, method: str = "POST", *, compares_pages: bool = False
    ) -> None:
        super().__init__()
        self.settled: Final = asyncio.Event()
        self.location = ""
        self.page = b""
        self._link: Final = link
        self._number: Final = number
        self._method: Final = method
        self._compares_pages: Final = compares_pages

    async def on_head(self, response: HttpResponse) -> None:
        """Pass the head on to the player. If a stream is open now, the next message may be sent."""
        self._link.statuses.add(response.status)
        self.location = response.header("location")
        if self._number:
            await self._link.events.put(AnswerHead(self._number, response.status, tuple(response.headers)))
        if response.is_stream or self._method == "GET":
            self.settled.set()

    async def on_message(self, raw: bytes, message: Message, block: SseBlock | None) -> None:
        """Pass a body or an event on to the player, except a body that is neither a message nor compared."""
        if block is None and (self.status >= 300 or isinstance(message, Malformed)):
            self.page = raw
            if isinstance(message, Malformed) and not self._compares_pages:
                return
        event = block and SseEvent(b"", b"", block.id, block.event, block.retry)
        await self._link.events.put(ServerFrame(raw, self._number, event))


class HttpLink:
    """Sends requests to ``url`` as the client of ``session`` did; ``headers`` are added to each request.

    ``tape`` takes a copy of all bytes, and ``upstream`` says how to reach the server. Unless ``is_direct``, a
    proxy of ours is at ``url``, so the user cannot be told to use the URL that it redirects to. ``statuses``
    are the statuses of all responses, ``refused`` the refusals of POSTs, and ``failures`` the reasons why
    exchanges were not completed.

    Raises:
        As ``RemoteServer``.
    """

    def __init__(
        self,
        url: str,
        session: RecordedSession,
        headers: Sequence[tuple[str, str]] = (),
        tape: Tape | None = None,
        upstream: UpstreamSettings = USUAL,
        *,
        is_direct: bool = True,
    ) -> None:
        self.events: asyncio.Queue[LinkEvent] = asyncio.Queue(_MAX_UNREAD)
        self.statuses: Final[set[int]] = set()
        self.refused: Final[list[HttpRefusal]] = []
        self.failures: Final[list[RemoteError]] = []
        self._is_direct: Final = is_direct
        self._pages: Final = {
            entry.exchange
            for entry in session.messages
            if entry.sender == SERVER and isinstance(entry.message, Malformed)
        }
        """The recorded exchanges in which the server sent a body or event that is not a message."""
        self._was_recorded_on_stdio: Final = not session.exchanges
        self._server: Final = RemoteServer(url, headers, tape or _Unrecorded(), "replay", upstream=upstream)
        self._session: Final[ClientSession[ReplayedExchange]] = ClientSession(self._server)
        self._session.is_http_sse = session.uses_http_sse
        self._headers: Final = HeaderWriter(session, self._session)

    async def open(self) -> None:
        """Do nothing: connections are made when they are needed."""

    async def send(self, send: Send) -> None:
        """Send a message, and return as soon as the next message may be sent."""
        recorded = send.step.exchange if send.step else None
        method = recorded.request.method if recorded and not send.raw else "POST"
        compares_pages = recorded is not None and recorded.number in self._pages
        exchange = ReplayedExchange(self, send.exchange, method, compares_pages=compares_pages)
        task = self._session.tasks.start(self._run_exchange(exchange, method, send))
        if not send.has_request:
            await _wait_first(exchange.settled.wait(), task)
        if self._was_recorded_on_stdio and b'"notifications/initialized"' in send.raw:
            # The recording has no GET, but the server needs a GET stream for its requests and notifications.
            stream = ReplayedExchange(self, method="GET")
            self._session.stream_task = self._session.tasks.start(self._listen(stream))
            await _wait_first(stream.settled.wait(), self._session.stream_task)

    async def end_input(self) -> None:
        """Close all streams."""
        await self._session.tasks.cancel()
        self._session.tasks.start(self.events.put(ServerGone("the streams were closed")))

    async def close(self) -> None:
        """Close all connections; for a client recorded on stdio, which has no DELETE, send one first."""
        await self._session.tasks.cancel()
        if self._was_recorded_on_stdio:
            await self._session.end(ReplayedExchange(self, method="DELETE"), _CLOSE_S)
        await self._server.close()

    async def _run_exchange(self, exchange: ReplayedExchange, method: str, send: Send) -> None:
        """Run one exchange to its end, including resumptions of its stream."""
        is_http_sse = self._session.is_http_sse
        if method == "POST" and is_http_sse:
            await self._session.has_endpoint.wait()
        headers = self._headers.headers(send)
        if method == "POST":
            exchange.kept_headers = resumption_headers(headers)
            await self._session.run_post(exchange, send.raw, headers)
        else:
            await self._session.run(exchange, method, headers, send.raw)
        await self._note_failure(exchange, is_stream_of_session=is_http_sse and method == "GET")
        if method == "POST" and not is_http_sse:
            await self._note_refusal(exchange)
        # With HTTP+SSE a response arrives on the GET stream, so its request may be answered after its POST
        # has ended.
        if send.exchange and (method == "GET" or not is_http_sse):
            await self.events.put(ExchangeOver(send.exchange))

    async def _listen(self, stream: ReplayedExchange) -> None:
        await self._session.listen(stream)
        await self._note_failure(stream)

    async def _note_refusal(self, exchange: ReplayedExchange) -> None:
        """Tell the player which requests will get no answer, because their exchange is over, and why."""
        server, status = self._server, exchange.status
        why = f"HTTP status {without_message(status, exchange.page, server.headers)}"
        if status >= 300:
            refused = refusal(server.url, status, exchange.location, exchange.page, server.headers)
            self.refused.append(refused)
            why = f"HTTP status {refused if self._is_direct else status}"
        elif exchange.is_stream:
            why = "the stream ended without it"
        if exchange.failure:
            why = f"the server {exchange.failure}"
        if exchange.unanswered:
            await self.events.put(RequestsRefused(frozenset(exchange.unanswered), why))

    async def _note_failure(self, exchange: ReplayedExchange, *, is_stream_of_session: bool = False) -> None:
        """Tell the player if the server is gone, or if no more messages can arrive from it."""
        exchange.settled.set()
        fault = exchange.failure
        if fault is None:
            return
        self.failures.append(fault)
        if isinstance(fault, UnreachableError | TooLongError | ForeignTargetError):
            await self.events.put(ServerGone(f"the server {fault}"))
        elif is_stream_of_session:
            await self.events.put(ServerGone("the server closed the stream"))


class _Unrecorded:
    """A tape that drops the bytes."""

    def record_bytes(self, kind: int, payload: bytes, connection: int) -> None:
        """Do nothing."""

    def note(self, what: str, why: str) -> None:
        """Do nothing."""


async def _wait_first(waiting: Coroutine[None, None, object], task: "asyncio.Task[None]") -> None:
    """Wait until ``waiting`` or ``task`` is done, for ``_SETTLE_S`` at most."""
    waiter = asyncio.ensure_future(waiting)
    await asyncio.wait((waiter, task), timeout=_SETTLE_S, return_when=asyncio.FIRST_COMPLETED)
    waiter.cancel()
    with suppress(asyncio.CancelledError):
        await waiter
