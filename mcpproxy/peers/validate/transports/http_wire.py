"""One MCP session over HTTP: the headers of a correct client, and the streams of the session.

The session uses Streamable HTTP. If the server supports only HTTP+SSE of 2024-11-05, the session uses that.
"""

import asyncio
from typing import Final

from mcpproxy.base.upstream.connecting import CONNECT_S
from mcpproxy.judge.session.frame import CLIENT, Frame
from mcpproxy.peers.client.http_session import OLD_TRANSPORT, ClientSession
from mcpproxy.peers.client.refusals import explanation_in
from mcpproxy.peers.client.remote_server import ForeignTargetError, Headers
from mcpproxy.peers.validate.errors import ForeignEndpointError, GoneError
from mcpproxy.peers.validate.transports.exchange import ClientExchange
from mcpproxy.peers.validate.transports.http_endpoint import HttpEndpoint
from mcpproxy.peers.validate.transports.wire import (
    EventHandler,
    FrameReceived,
    RequestEnded,
    ServerLost,
    ignore_event,
)
from mcpproxy.protocol.jsonrpc import parse
from mcpproxy.protocol.mirrors import listed_mirrors
from mcpproxy.record.trace.records import Recorded

_CLOSE_S: Final = 5.0
"""How long the DELETE that ends a session may take."""


class HttpWire(ClientSession[ClientExchange]):
    """One MCP session with the endpoint ``server``, which records its exchanges.

    With HTTP+SSE, ``stream`` is the exchange on whose stream the server sends all messages.
    """

    transport = "http"

    def __init__(self, server: HttpEndpoint) -> None:
        super().__init__(server.server, server.tasks)
        self.server: Final = server
        self.recording = server.recording
        self.on_event: EventHandler = ignore_event
        self.mirrors = server.mirrors
        self.last: ClientExchange | None = None
        """The exchange of the last message that was sent."""
        self.stream: ClientExchange | None = None
        self._posts: Final[dict[ClientExchange, asyncio.Task[None]]] = {}

    async def open(self) -> None:
        """Open the stream of HTTP+SSE if the server needs it; else do nothing until the first message.

        Raises:
            GoneError: the server uses HTTP+SSE, and does not open another stream.
            ForeignEndpointError: the stream names an endpoint to which nothing may be sent.
        """
        if self.server.is_http_sse and not await self._use_http_sse(CONNECT_S):
            raise GoneError("the server did not begin another stream with an endpoint event")

    async def fall_back(self, status: int, timeout_s: float) -> bool:
        """Switch to HTTP+SSE if ``status`` allows that, and a GET opens such a stream; return whether it did.

        ``status`` is that of the answer to ``initialize``, and ``timeout_s`` limits the wait for the stream.

        Raises:
            ForeignEndpointError: the stream names an endpoint to which nothing may be sent.
        """
        return status in OLD_TRANSPORT and await self._use_http_sse(timeout_s)

    async def _use_http_sse(self, limit_s: float) -> bool:
        stream = ClientExchange(self)
        if await self.switch_to_http_sse(stream, limit_s, self._report_loss):
            self.stream = stream
            self.server.is_http_sse = True
        elif isinstance(stream.failure, ForeignTargetError):
            raise ForeignEndpointError(f"the endpoint event {stream.failure}", stream.evidence)
        return self.is_http_sse

    def headers(self, raw: bytes = b"") -> list[tuple[str, str]]:
        """Return the headers that a correct client sends with the message ``raw``, or without a body."""
        return self.headers_for(parse(raw) if raw else None)

    async def send(self, raw: bytes) -> int:
        """Send one message in a POST. Return the number of its frame, as soon as the message is sent.

        Raises:
            GoneError: the server cannot be reached.
        """
        return (await self.post(raw, self.headers(raw))).seq

    async def post(self, raw: bytes, headers: Headers) -> ClientExchange:
        """Send a message in a POST with these headers and the user's, and return as soon as it is sent.

        Raises:
            GoneError: the server cannot be reached.
        """
        # With HTTP+SSE the response to a POST is not a message; messages come on the stream.
        exchange = self.last = ClientExchange(None if self.endpoint else self)
        exchange.awaited = returning = asyncio.Event()
        sent = asyncio.Event()

        def on_record(event: Recorded) -> None:
            if isinstance(event, Frame) and event.sender == CLIENT and event.exchange == exchange.number:
                sent.set()

        self.recording.add_listener(on_record)
        self._posts[exchange] = task = self.tasks.start(self._run_and_report(exchange, raw, headers))
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
        if self.stream_task is None:
            self.stream_task = self.tasks.start(self.listen(ClientExchange(self)))

    def abandon(self, exchange: ClientExchange) -> None:
        """Close the connection of a POST before its response is complete."""
        if task := self._posts.get(exchange):
            task.cancel()

    def on_frame(self, exchange: ClientExchange, frame: Frame) -> None:
        """Process a frame of the server, and note the tools in it that require arguments in headers."""
        self.mirrors.update(listed_mirrors(frame.raw))
        if not frame.continues:
            self.note_answers(exchange, frame.message)
        self.on_event(FrameReceived(frame))

    async def close(self) -> None:
        """End the session with DELETE, if it has an id."""
        self.stream = None
        await self.end(ClientExchange(), _CLOSE_S)

    async def run(self, exchange: ClientExchange, method: str, headers: Headers, body: bytes = b"") -> None:
        """Send one request, and have its response recorded to the end."""
        await self.server.run(exchange, method, headers, body, url=self.endpoint if method == "POST" else "")

    def _report_loss(self, why: str) -> None:
        self.on_event(ServerLost(f"it {why}"))

    async def _run_and_report(self, exchange: ClientExchange, raw: bytes, headers: Headers) -> None:
        """Run a POST to its end, and report the end, or the loss of the server, to the connection.

        With HTTP+SSE only a refusal or a failure is reported: the answers come on the stream.
        """
        await self.run_post(exchange, raw, headers)
        if exchange.failure and not exchange.number:  # not even the request was sent
            self._report_loss(str(exchange.failure))
        elif not self.endpoint or exchange.status >= 300 or exchange.failure:
            why = f"it {exchange.failure}" if exchange.failure else ""
            refusal = self.server.refusal(exchange) if exchange.status >= 300 else None
            explanation = "" if exchange.is_stream else explanation_in(exchange.body, self.server.headers)
            self.on_event(RequestEnded(exchange.seq, exchange.status, why, refusal, explanation))
