"""A link to a live server over HTTP: sends an HTTP request for each message, and receives from all streams.

The link supports Streamable HTTP, with or without sessions, and HTTP+SSE, where an ``endpoint`` event on the
stream names the URL for POSTs. A stream that ends before the response to its request is resumed.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Final

from mcpproxy.client.remote_server import (
    HttpResponse,
    RemoteError,
    RemoteServer,
    TooLongError,
    UnreachableError,
)
from mcpproxy.client.stream_cursor import StreamCursor
from mcpproxy.protocol.header_names import SESSION_ID
from mcpproxy.protocol.jsonrpc import ErrorResponse, Request, Response, parse
from mcpproxy.protocol.message_parts import singles
from mcpproxy.replay.client.driver import AnswerHead, ExchangeOver, LinkEvent, ServerFrame, ServerGone
from mcpproxy.replay.client.player import Send
from mcpproxy.replay.client.recorded_headers import HeaderWriter
from mcpproxy.replay.recording import RecordedSession
from mcpproxy.session.frame import SseEvent

_SETTLE_S: Final = 2.0
"""How long a message without a response may take before the next message is sent."""
_MAX_UNREAD: Final = 1000
"""How many events may wait in the queue. If the queue is full, no more is read from the server."""


class HttpLink:
    """Sends requests to ``url`` as the client of ``session`` did; ``headers`` are added to each request."""

    def __init__(self, url: str, session: RecordedSession, headers: Sequence[tuple[str, str]] = ()) -> None:
        self.events: asyncio.Queue[LinkEvent] = asyncio.Queue(_MAX_UNREAD)
        self._headers: Final = HeaderWriter(session)
        self._extra_headers: Final = headers
        self._was_recorded_on_stdio: Final = not session.exchanges
        self._is_http_sse: Final = any(
            entry.event is not None and entry.event.name == "endpoint" for entry in session.messages
        )
        self._post_url = ""
        self._has_post_url: Final = asyncio.Event()
        if not self._is_http_sse:
            self._has_post_url.set()
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._server: Final = RemoteServer(url, (), _Unrecorded(), "replay")

    async def open(self) -> None:
        """Do nothing: connections are made when they are needed."""

    async def send(self, send: Send) -> None:
        """Send a message, and return as soon as the next message may be sent."""
        exchange = send.step.exchange if send.step else None
        method = exchange.request.method if exchange and not send.raw else "POST"
        settled = asyncio.Event()
        task = self._start(self._exchange(method, send, settled))
        if not send.has_request:
            await _wait_first(settled.wait(), task)
        if self._was_recorded_on_stdio and b'"notifications/initialized"' in send.raw:
            # The recording has no GET, but the server needs a GET stream for its requests and notifications.
            opened = asyncio.Event()
            stream = self._start(self._exchange("GET", Send(b""), opened))
            await _wait_first(opened.wait(), stream)

    async def end_input(self) -> None:
        """Close all streams."""
        await self._cancel()
        self._start(self.events.put(ServerGone("the streams were closed")))

    async def close(self) -> None:
        """Close all connections."""
        await self._cancel()
        await self._server.close()

    def _start(self, coroutine: Coroutine[None, None, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _cancel(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _exchange(self, method: str, send: Send, settled: asyncio.Event) -> None:
        """Run one exchange to its end, including resumptions of its stream.

        ``settled`` is set when the next message may be sent.
        """
        if method == "POST":
            await self._has_post_url.wait()
        headers = [*self._headers.headers(send), *self._extra_headers]
        stream = _Stream(self, send.exchange, _requests_in(send.raw) if method == "POST" else 0)
        try:
            url = self._post_url if method == "POST" else ""
            await stream.run(self._server.exchange(method, headers, send.raw, url=url), method, settled)
            headers = [(name, value) for name, value in headers if name.lower() != "content-type"]
            while stream.can_resume:
                await asyncio.sleep(stream.cursor.begin_attempt())
                again = self._server.exchange("GET", [*headers, *stream.cursor.headers])
                await stream.run(again, "GET", settled)
        except (UnreachableError, TooLongError) as fault:
            await self.events.put(ServerGone(f"the server {fault}"))
        except RemoteError:
            if method == "GET" and self._is_http_sse:
                await self.events.put(ServerGone("the server closed the stream"))
        finally:
            settled.set()
        # With HTTP+SSE a response comes on the GET stream. So the end of a POST does not mean that its
        # request stays unanswered.
        if send.exchange and (method == "GET" or not self._is_http_sse):
            await self.events.put(ExchangeOver(send.exchange))

    async def receive_body(self, exchange: int, raw: bytes, event: SseEvent | None = None) -> None:
        """Process a response body or an event."""
        if event is not None and event.name == "endpoint":
            try:
                self._post_url = self._server.resolve(raw)
                self._has_post_url.set()
            except RemoteError as fault:
                await self.events.put(ServerGone(f"the server {fault}"))
            return
        self._headers.learn(raw)
        await self.events.put(ServerFrame(raw, exchange, event))

    async def receive_head(self, exchange: int, response: HttpResponse) -> None:
        """Process the head of a response."""
        if id := response.header(SESSION_ID):
            self._headers.session_id = id
        if exchange:
            await self.events.put(AnswerHead(exchange, response.status, tuple(response.headers)))


class _Stream:
    """The response of one exchange: counts the requests still ``unanswered``, and knows how to resume."""

    def __init__(self, link: HttpLink, exchange: int, unanswered: int) -> None:
        self._link: Final = link
        self._exchange: Final = exchange
        self._unanswered = unanswered
        self.cursor: Final = StreamCursor()

    @property
    def can_resume(self) -> bool:
        """Whether an answer is missing that may come when the stream is resumed."""
        return self._unanswered > 0 and self.cursor.can_resume

    async def run(
        self, sent: AbstractAsyncContextManager[HttpResponse], method: str, settled: asyncio.Event
    ) -> None:
        """Receive a response to the end; set ``settled`` when a stream is open.

        Raises:
            RemoteError: there is none, or it is cut short and cannot be resumed.
        """
        async with sent as response:
            await self._link.receive_head(self._exchange, response)
            if response.is_stream or method == "GET":
                settled.set()
            if not response.is_stream:
                if body := await response.body():
                    await self._receive_body(body)
                return
            try:
                async for block in response.events():
                    self.cursor.pass_over(block.id, block.retry)
                    if block.data:
                        event = SseEvent(b"", b"", block.id, block.event, block.retry)
                        await self._receive_body(block.data, event)
            except TooLongError:
                raise
            except RemoteError:
                if not self.can_resume:
                    raise

    async def _receive_body(self, raw: bytes, event: SseEvent | None = None) -> None:
        answers = (isinstance(single, Response | ErrorResponse) for single in singles(parse(raw)))
        self._unanswered -= sum(answers)
        await self._link.receive_body(self._exchange, raw, event)


class _Unrecorded:
    """Takes no copy of the bytes: a replay compares the messages."""

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


def _requests_in(raw: bytes) -> int:
    return sum(isinstance(single, Request) for single in singles(parse(raw)))
