"""One MCP session over HTTP: the headers of a correct client, and the streams of the session.

The session uses Streamable HTTP. If the server supports only HTTP+SSE of 2024-11-05, the session uses that.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from mcpproxy.base.client_connection import CONNECT_S
from mcpproxy.base.named_url import ForeignUrlError, resolved
from mcpproxy.protocol.jsonrpc import (
    ErrorResponse,
    Request,
    Response,
    parse,
)
from mcpproxy.protocol.message_parts import singles
from mcpproxy.protocol.mirrors import listed_mirrors
from mcpproxy.protocol.request_headers import required_headers
from mcpproxy.session.frame import CLIENT, Frame
from mcpproxy.trace.records import Recorded
from mcpproxy.validate.errors import ForeignEndpointError, GoneError, TimedOutError
from mcpproxy.validate.transports.exchange import ClientExchange, Headers
from mcpproxy.validate.transports.http_endpoint import HttpEndpoint
from mcpproxy.validate.transports.wire import EventHandler, FrameReceived, RequestEnded, ServerLost, WireEvent

_CLOSE_S: Final = 5.0


class HttpWire:
    """One MCP session with the endpoint ``server``.

    ``session_id`` and ``version`` are sent in headers when they are known. With HTTP+SSE, ``stream`` is the
    stream on which the server sends all messages.
    """

    transport = "http"

    def __init__(self, server: HttpEndpoint) -> None:
        self.server: Final = server
        self.recording = server.recording
        self.on_event: EventHandler = _ignore
        self.mirrors: Final = server.mirrors
        self.session_id = ""
        self.version = ""
        self.last: ClientExchange | None = None
        """The exchange of the last message that was sent."""
        self.stream: ClientExchange | None = None
        self._post_url = ""
        """Where messages are sent with HTTP+SSE; empty with Streamable HTTP."""
        self._stream_task: asyncio.Task[None] | None = None
        self._posts: Final[dict[ClientExchange, asyncio.Task[None]]] = {}

    @property
    def is_http_sse(self) -> bool:
        """Whether this session uses HTTP+SSE."""
        return self.stream is not None

    async def open(self) -> None:
        """Open the stream of HTTP+SSE if the server needs it; else do nothing until the first message.

        Raises:
            GoneError: the server uses HTTP+SSE, and does not open another stream.
            ForeignEndpointError: the stream names an endpoint to which nothing may be sent.
        """
        if self.server.is_http_sse and not await self.fall_back(CONNECT_S):
            raise GoneError("the server did not begin another stream with an endpoint event")

    async def fall_back(self, timeout_s: float) -> bool:
        """Switch to HTTP+SSE if a GET opens a stream of that transport; return whether it does.

        Raises:
            ForeignEndpointError: the stream names an endpoint to which nothing may be sent.
        """
        stream = ClientExchange(self)
        self._stream_task = self.server.create_task(self._read_stream(stream))
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await stream.wait_until(lambda: bool(stream.endpoint))
        if stream.endpoint:
            try:
                self._post_url = resolved(self.server.url, stream.endpoint, loopback_is_one=True)
            except ForeignUrlError as fault:
                await self._end_stream()
                raise ForeignEndpointError(f"the endpoint event {fault}", stream.evidence) from None
            self.stream = stream
            self.server.is_http_sse = True
            return True
        await self._end_stream()
        return False

    def headers(self, raw: bytes = b"") -> list[tuple[str, str]]:
        """Return the headers that a correct client sends with the message ``raw``, or without a body."""
        message = parse(raw) if raw else None
        return required_headers(message, self.session_id, self.version, self.mirrors)

    async def send(self, raw: bytes) -> int:
        """Send one message in a POST. Return the number of its frame, as soon as the message is sent.

        Raises:
            GoneError: the server cannot be reached.
        """
        return (await self.post(raw, self.headers(raw))).seq

    async def post(self, raw: bytes, headers: Headers) -> ClientExchange:
        """Send a message in a POST with exactly these headers, and return as soon as it is sent.

        Raises:
            GoneError: the server cannot be reached.
        """
        # With HTTP+SSE the response to a POST is not a message; messages come on the stream.
        exchange = self.last = ClientExchange(None if self.is_http_sse else self)
        exchange.awaited = returning = asyncio.Event()
        sent = asyncio.Event()

        def on_record(event: Recorded) -> None:
            if isinstance(event, Frame) and event.sender == CLIENT and event.exchange == exchange.number:
                sent.set()

        self.recording.add_listener(on_record)
        self._posts[exchange] = task = self.server.create_task(self._run(exchange, raw, headers))
        task.add_done_callback(lambda _: self._posts.pop(exchange, None))
        waits = [asyncio.create_task(sent.wait()), asyncio.create_task(exchange.started.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            self.recording.remove_listener(on_record)
            returning.set()
        if exchange.failure:
            raise GoneError(f"the server {exchange.failure}", exchange.evidence)
        return exchange

    async def open_stream(self) -> None:
        """Open the GET stream for unsolicited server messages, without waiting for it."""
        if not self.is_http_sse and self._stream_task is None:
            self._stream_task = self.server.create_task(
                self.server.run(ClientExchange(self), "GET", self.headers(), b"")
            )

    def abandon(self, exchange: ClientExchange) -> None:
        """Close the connection of a POST before its response is complete."""
        if task := self._posts.get(exchange):
            task.cancel()

    def on_frame(self, frame: Frame) -> None:
        """Process a frame of the server, and note the tools in it that require arguments in headers."""
        self.mirrors.update(listed_mirrors(frame.raw))
        self.on_event(FrameReceived(frame))

    async def close(self) -> None:
        """End the session with DELETE, if it has an id."""
        await self._end_stream()
        if self.session_id:
            with suppress(GoneError, TimedOutError):
                await self.server.exchange("DELETE", self.headers(), timeout_s=_CLOSE_S)

    async def _read_stream(self, stream: ClientExchange) -> None:
        """Read the stream of HTTP+SSE to its end."""
        await self.server.run(stream, "GET", self.headers(), b"")
        if self.stream is stream:
            self.on_event(ServerLost(f"it {stream.failure or 'ended the stream of the session'}"))

    async def _end_stream(self) -> None:
        self.stream, self._post_url = None, ""
        task, self._stream_task = self._stream_task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self, exchange: ClientExchange, raw: bytes, headers: Headers) -> None:
        """Run a POST to its end. If its stream ends before the responses, resume the stream."""
        await self.server.run(exchange, "POST", headers, raw, url=self._post_url)
        if exchange.failure and not exchange.number:  # not even the request was sent
            self.on_event(ServerLost(f"it {exchange.failure}"))
            return
        if self.is_http_sse and exchange.status < 300 and not exchange.failure:
            return  # the response comes on the stream
        unanswered = _count_requests(raw) - _count_answers(exchange.frames)
        latest, cursor = exchange, exchange.cursor
        while unanswered > 0 and latest.is_stream and cursor.can_resume:
            await asyncio.sleep(cursor.begin_attempt())
            latest = ClientExchange(self, cursor=cursor)
            await self.server.run(latest, "GET", [*self.headers(), *cursor.headers], b"")
            unanswered -= _count_answers(latest.frames)
        why = f"it {exchange.failure}" if exchange.failure else ""
        self.on_event(RequestEnded(exchange.seq, exchange.status, why))


def _ignore(event: WireEvent) -> None:
    """Do nothing: the handler of events until a connection sets another one."""


def _count_requests(raw: bytes) -> int:
    return sum(isinstance(single, Request) for single in singles(parse(raw)))


def _count_answers(frames: Iterable[Frame]) -> int:
    total = 0
    for frame in frames:
        total += sum(isinstance(single, Response | ErrorResponse) for single in singles(frame.message))
    return total
