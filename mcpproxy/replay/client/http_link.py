"""A link to a live server over HTTP: sends an HTTP request for each message, and receives from all streams.

The link supports Streamable HTTP, with or without sessions, and HTTP+SSE, where an ``endpoint`` event on the
stream names the URL for POSTs. A stream that ends before the response to its request is resumed.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

import httpx

from mcpproxy.base.named_url import ForeignUrlError, resolved
from mcpproxy.base.tls_failures import refusal, tls_fault, tls_reason
from mcpproxy.client.stream_cursor import StreamCursor
from mcpproxy.errors import McpProxyError
from mcpproxy.framing.sse import LIMIT_BYTES, SseBlock, SseFramer
from mcpproxy.protocol.header_names import SESSION_ID
from mcpproxy.protocol.jsonrpc import ErrorResponse, Request, Response, parse
from mcpproxy.protocol.message_parts import singles
from mcpproxy.replay.client.driver import AnswerHead, ExchangeOver, LinkEvent, ServerFrame, ServerGone
from mcpproxy.replay.client.player import Send
from mcpproxy.replay.client.recorded_headers import HeaderWriter
from mcpproxy.replay.recording import RecordedSession
from mcpproxy.session.frame import SseEvent

_CONNECT_S: Final = 10.0
_SETTLE_S: Final = 2.0
"""How long a message without a response may take before the next message is sent."""
_MAX_UNREAD: Final = 1000
"""How many events may wait in the queue. If the queue is full, no more is read from the server."""


class HttpLink:
    """Sends requests to ``url`` as the client of ``session`` did; ``headers`` are added to each request."""

    def __init__(self, url: str, session: RecordedSession, headers: Sequence[tuple[str, str]] = ()) -> None:
        self.events: asyncio.Queue[LinkEvent] = asyncio.Queue(_MAX_UNREAD)
        self._url: Final = url
        self._headers: Final = HeaderWriter(session)
        self._extra_headers: Final = headers
        self._was_recorded_on_stdio: Final = not session.exchanges
        self._is_http_sse: Final = any(
            entry.event is not None and entry.event.name == "endpoint" for entry in session.messages
        )
        self._post_url = url
        self._has_post_url: Final = asyncio.Event()
        if not self._is_http_sse:
            self._has_post_url.set()
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._client: httpx.AsyncClient | None = None

    async def open(self) -> None:
        """Create the HTTP client; nothing is sent yet.

        Raises:
            McpProxyError: the URL is invalid.
        """
        try:
            httpx.URL(self._url)
        except httpx.InvalidURL as fault:
            raise McpProxyError(f"{self._url}: {fault}; give the URL of an MCP endpoint") from None
        timeout = httpx.Timeout(None, connect=_CONNECT_S)
        limits = httpx.Limits(max_connections=None)
        self._client = httpx.AsyncClient(timeout=timeout, limits=limits, trust_env=False)
        # The recorded client did not send the default headers of httpx.
        self._client.headers.clear()

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
        if self._client is not None:
            await self._client.aclose()

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
        assert self._client is not None
        if method == "POST":
            await self._has_post_url.wait()
        headers = [*self._headers.headers(send), *self._extra_headers]
        stream = _Stream(self, send.exchange, _requests_in(send.raw) if method == "POST" else 0)
        url = self._post_url if method == "POST" else self._url
        try:
            await stream.run(self._client, method, url, headers, send.raw, settled)
            while stream.unanswered and stream.cursor.can_resume:
                await asyncio.sleep(stream.cursor.begin_attempt())
                body_headers = ("content-type", "content-length")
                get_headers = [(name, value) for name, value in headers if name.lower() not in body_headers]
                await stream.run(
                    self._client,
                    "GET",
                    self._url,
                    [*get_headers, *stream.cursor.headers],
                    b"",
                    settled,
                )
        except httpx.ConnectError as fault:
            await self.events.put(ServerGone(f"the server cannot be reached ({_reason(fault)})"))
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, ValueError) as fault:
            if (
                isinstance(fault, httpx.NetworkError)
                and not stream.has_head
                and (reason := await _refusal(url))
            ):
                await self.events.put(ServerGone(f"the server cannot be reached ({reason})"))
            elif method == "GET" and self._is_http_sse:
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
                self._post_url = resolved(self._url, raw)
                self._has_post_url.set()
            except ForeignUrlError as fault:
                await self.events.put(ServerGone(f"the server {fault}"))
            return
        self._headers.learn(raw)
        await self.events.put(ServerFrame(raw, exchange, event))

    async def receive_head(self, exchange: int, response: httpx.Response) -> None:
        """Process the head of a response."""
        if id := response.headers.get(SESSION_ID):
            self._headers.session_id = id
        if exchange:
            await self.events.put(
                AnswerHead(exchange, response.status_code, tuple(response.headers.multi_items()))
            )


class _Stream:
    """The response of one exchange: counts the requests still ``unanswered``, and knows how to resume."""

    def __init__(self, link: HttpLink, exchange: int, unanswered: int) -> None:
        self._link: Final = link
        self._exchange: Final = exchange
        self.unanswered = unanswered
        self.has_head = False
        """Whether an answer of the server has begun."""
        self.cursor: Final = StreamCursor()

    async def run(
        self,
        client: httpx.AsyncClient,
        method: str,
        url: str,
        headers: Sequence[tuple[str, str]],
        body: bytes,
        settled: asyncio.Event,
    ) -> None:
        """Send a request and receive its response to the end; set ``settled`` when a stream is open."""
        fields = [
            (name.encode("latin-1", "replace"), value.encode("latin-1", "replace")) for name, value in headers
        ]
        sent = client.stream(method, url, headers=fields, content=body or None)
        async with sent as response:
            self.has_head = True
            await self._link.receive_head(self._exchange, response)
            is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
            if is_stream or method == "GET":
                settled.set()
            if is_stream:
                await self._events(response.aiter_bytes())
            else:
                await self._body(response.aiter_bytes())

    async def _events(self, chunks: AsyncIterator[bytes]) -> None:
        framer = SseFramer()
        async for chunk in chunks:
            for block in framer.feed(chunk, 0):
                if not block.complete:
                    why = f"the server sent an event of more than {LIMIT_BYTES >> 20} MiB"
                    await self._link.events.put(ServerGone(why))
                    return
                await self._event(block)

    async def _body(self, chunks: AsyncIterator[bytes]) -> None:
        body = bytearray()
        async for chunk in chunks:
            body += chunk
            if len(body) > LIMIT_BYTES:
                why = f"the server sent a body of more than {LIMIT_BYTES >> 20} MiB"
                await self._link.events.put(ServerGone(why))
                return
        if body:
            await self._receive_body(bytes(body))

    async def _event(self, block: SseBlock) -> None:
        self.cursor.pass_over(block.id, block.retry)
        if block.data:
            await self._receive_body(block.data, SseEvent(b"", b"", block.id, block.event, block.retry))

    async def _receive_body(self, raw: bytes, event: SseEvent | None = None) -> None:
        self.unanswered -= sum(isinstance(single, Response | ErrorResponse) for single in singles(parse(raw)))
        await self._link.receive_body(self._exchange, raw, event)


def _reason(fault: httpx.ConnectError) -> str:
    """Return why there is no connection."""
    failed = tls_fault(fault)
    return str(fault) if failed is None else tls_reason(failed)


async def _refusal(url: str) -> str:
    """Return why the server refuses our TLS; empty if it does not."""
    parts = urlsplit(url)
    return await refusal(parts.hostname or "", parts.port or 443) if parts.scheme == "https" else ""


async def _wait_first(waiting: Coroutine[None, None, object], task: "asyncio.Task[None]") -> None:
    """Wait until ``waiting`` or ``task`` is done, for ``_SETTLE_S`` at most."""
    waiter = asyncio.ensure_future(waiting)
    await asyncio.wait((waiter, task), timeout=_SETTLE_S, return_when=asyncio.FIRST_COMPLETED)
    waiter.cancel()
    with suppress(asyncio.CancelledError):
        await waiter


def _requests_in(raw: bytes) -> int:
    return sum(isinstance(single, Request) for single in singles(parse(raw)))
