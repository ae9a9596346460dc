"""The HTTP endpoint under test, with all connections to it; every byte is recorded.

The recorder splits the bytes into heads, bodies and events, as it does for the proxy. Its input has the form
of the proxy's journal (``relay.journal``), in which each piece of bytes has a kind, such as ``CLIENT`` for
bytes of the client.
"""

import asyncio
import json
import os
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Final
from urllib.parse import urlsplit

from mcpproxy.base.upstream.settings import USUAL, UpstreamSettings
from mcpproxy.judge.session.frame import (
    CLIENT,
    FRAME_BYTES,
    Close,
    ExchangeEnd,
    Frame,
    RequestHead,
    ResponseHead,
)
from mcpproxy.peers.client.background_tasks import BackgroundTasks, cancel_tasks
from mcpproxy.peers.client.refusals import HttpRefusal, refusal
from mcpproxy.peers.client.remote_server import Headers, RemoteError, RemoteServer, TooLongError
from mcpproxy.peers.validate.errors import GoneError, TimedOutError
from mcpproxy.peers.validate.session_recording import SessionRecording
from mcpproxy.peers.validate.transports.exchange import ClientExchange
from mcpproxy.protocol.mirrors import Mirrors
from mcpproxy.record.recorder.http.assembly import HttpAssembly
from mcpproxy.record.trace.records import Recorded

_EXCHANGE_BYTES: Final = 64 << 20
"""How much of one response is read, with ``FRAME_BYTES`` for each of its frames. A longer one fails."""

_RUN_BYTES: Final = 256 << 20
"""The limit for all responses of an endpoint together. Beyond it every exchange fails at once."""

_current_exchange: ContextVar[ClientExchange | None] = ContextVar("_current_exchange", default=None)
"""The exchange of the task that runs; ``None`` in a task without one."""


class HttpEndpoint:
    """The endpoint at ``url``, and the connections to it.

    ``headers``, those of the user, are sent with every request that is not anonymous. ``upstream`` says how
    the endpoint is reached. ``mirrors`` maps the name of a listed tool to the arguments that the tool
    requires in headers.
    """

    def __init__(
        self, recording: SessionRecording, url: str, headers: Headers, upstream: UpstreamSettings = USUAL
    ) -> None:
        self.recording: Final = recording
        self.url: Final = url
        self.headers: Final = tuple(headers)
        self.mirrors: Final[dict[str, Mirrors]] = {}
        self.is_http_sse = False
        """Whether a session found out that the server supports only HTTP+SSE."""
        self.exhausted = ""
        """Why no more requests are sent to the server, as a clause; empty while they are."""
        self._received = 0
        self._exchanges: Final[dict[int, ClientExchange]] = {}
        options = {"endpoint": urlsplit(url).path or "/", "salt": os.urandom(32).hex()}
        self._assembly: Final = HttpAssembly(json.dumps(options).encode())
        self.server: Final = RemoteServer(url, (), self, "validate", upstream=upstream)
        self.tasks: Final = BackgroundTasks()
        recording.add_listener(self._on_record)

    async def exchange(
        self,
        method: str,
        headers: Headers = (),
        body: bytes = b"",
        *,
        url: str = "",
        timeout_s: float,
        until_head: bool = False,
        is_enough: Callable[[ClientExchange], bool] | None = None,
        is_anonymous: bool = False,
    ) -> ClientExchange:
        """Run one exchange to its end.

        The request has these headers, the ``headers`` of the endpoint (not if ``is_anonymous``), ``Host``
        and, if it has a body or is a POST, ``Content-Length``. ``url`` is as for ``run``.

        With ``until_head`` the exchange is stopped when the head of the response has arrived; with
        ``is_enough`` it is stopped when that function returns true.

        Raises:
            GoneError: the server cannot be reached, ended the exchange early, or sent too much.
            TimedOutError: the exchange did not end in time.
        """
        exchange = ClientExchange()
        task = self.start(exchange, method, headers, body, url=url, is_anonymous=is_anonymous)
        try:
            async with asyncio.timeout(timeout_s):
                await (exchange.started if until_head or is_enough else exchange.ended).wait()
                if is_enough is not None:
                    await exchange.wait_until(lambda: is_enough(exchange))
        except TimeoutError:
            what = "the answer did not end" if exchange.status else "no answer came"
            raise TimedOutError(f"{what} within {timeout_s:g} s", exchange.evidence) from None
        finally:
            await cancel_tasks(task)
        if exchange.failure:
            raise GoneError(f"the server {exchange.failure}", exchange.evidence)
        return exchange

    async def read_stream(
        self, headers: Headers, is_enough: Callable[[ClientExchange], bool], limit_s: float
    ) -> ClientExchange:
        """Read the stream of a GET until ``is_enough`` returns true, it ends, or ``limit_s`` is over."""
        exchange = ClientExchange()
        task = self.start(exchange, "GET", headers)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(limit_s):
                    await exchange.wait_until(lambda: is_enough(exchange))
        finally:
            await cancel_tasks(task)
        return exchange

    async def post_and_drop(self, headers: Headers, body: bytes) -> ClientExchange:
        """Send a POST, and close the connection before reading a response."""
        exchange = ClientExchange()
        task = self.start(exchange, "POST", headers, body)
        waits = [asyncio.create_task(event.wait()) for event in (exchange.written, exchange.ended)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await cancel_tasks(task)
        return exchange

    def start(
        self,
        exchange: ClientExchange,
        method: str,
        headers: Headers = (),
        body: bytes = b"",
        *,
        url: str = "",
        is_anonymous: bool = False,
    ) -> "asyncio.Task[None]":
        """Start an exchange in the background; its event ``ended`` is set at its end."""
        return self.tasks.start(self.run(exchange, method, headers, body, url=url, is_anonymous=is_anonymous))

    async def run(
        self,
        exchange: ClientExchange,
        method: str,
        headers: Headers,
        body: bytes,
        *,
        url: str = "",
        is_anonymous: bool = False,
    ) -> None:
        """Run an exchange to its end. An error is reported in its ``failure``.

        ``url`` is a URL that the server named, by default the endpoint; nothing is sent to another origin.
        """
        _current_exchange.set(exchange)
        fields = (*(() if is_anonymous else self.headers), *headers)
        try:
            if self.exhausted:
                raise _ExcessError(self.exhausted)
            target = self.server.resolve(url.encode("utf-8", "surrogateescape")) if url else ""
            sent = self.server.exchange(method, fields, body, url=target, on_sent=exchange.written.set)
            async with sent as response:
                if exchange.awaited is not None:
                    await exchange.awaited.wait()
                exchange.begin(response)
                async for chunk in response.chunks():
                    exchange.find_endpoint(chunk)
                    self._count_bytes(exchange, len(chunk))
        except RemoteError as fault:
            exchange.failure = fault
        finally:
            exchange.started.set()
            exchange.ended.set()
            exchange.progressed.set()

    def refusal(self, exchange: ClientExchange) -> HttpRefusal:
        """Return the refusal in the response of an exchange, whose status is 300 or more."""
        location = exchange.header("location")
        return refusal(self.server.url, exchange.status, location, exchange.body, self.headers)

    def _count_bytes(self, exchange: ClientExchange, size: int) -> None:
        """Count bytes of a response.

        Raises:
            _ExcessError: there are too many.
        """
        exchange.received += size
        self._received += size
        if exchange.received > _EXCHANGE_BYTES:
            why = f"sent a response of more than {_EXCHANGE_BYTES >> 20} MiB, or as many events"
            exchange.excess = exchange.excess or why
        if self._received > _RUN_BYTES:
            exchange.excess = self.exhausted = f"sent more than {_RUN_BYTES >> 20} MiB in all"
        if exchange.excess:
            raise _ExcessError(exchange.excess)

    async def close(self) -> None:
        """Close all connections and the recording."""
        await self.tasks.cancel()
        await self.server.close()
        for event in self._assembly.end():
            self.recording.record(event)
        self.recording.close(Close("exited", exit_code=0, observed_at_ns=self.recording.now_ns()))

    # Recording the connections

    def record_bytes(self, kind: int, payload: bytes, connection: int) -> None:
        """Record bytes of a connection, or the end of one direction; ``kind`` is a kind of journal record."""
        for event in self._assembly.take(kind, payload, self.recording.now_ns(), connection):
            self.recording.record(event)

    def note(self, what: str, why: str) -> None:
        """Do nothing: the report says why a server cannot be reached."""

    def _on_record(self, event: Recorded) -> None:
        if isinstance(event, RequestHead):
            # This runs in the task that writes the request, so the context variable is that task's exchange.
            exchange = _current_exchange.get()
            if exchange is None:
                return
            exchange.number = event.exchange
            exchange.seq = event.seq
            exchange.heads.append(event.seq)
            self._exchanges[event.exchange] = exchange
        elif isinstance(event, ResponseHead) and event.status >= 200:
            if exchange := self._exchanges.get(event.exchange):
                exchange.heads.append(event.seq)
        elif isinstance(event, Frame) and (exchange := self._exchanges.get(event.exchange)):
            self._on_frame(exchange, event)
        elif isinstance(event, ExchangeEnd) and (exchange := self._exchanges.pop(event.exchange, None)):
            exchange.is_cut = event.cut

    def _on_frame(self, exchange: ClientExchange, frame: Frame) -> None:
        if frame.sender == CLIENT:
            exchange.seq, exchange.is_request_recorded = frame.seq, True
            return
        exchange.received += FRAME_BYTES
        self._received += FRAME_BYTES
        if frame.continues and not exchange.excess:
            what = "an event" if exchange.is_stream else "a body"
            mib = -(-exchange.received // (1 << 20))
            exchange.excess = f"sent {what} of about {mib} MiB or more, too large to read"
        exchange.frames.append(frame)
        exchange.progressed.set()
        if exchange.excess and not frame.continues:  # the rest of a frame that is too large
            return
        if frame.event is not None:
            exchange.cursor.note_event(frame.event.id, frame.event.retry)
            if frame.event.name == "endpoint":
                return
        if frame.raw or frame.event is None:  # an event without data contains no message
            exchange.on_frame(frame)


class _ExcessError(TooLongError):
    """A response, or the run, exceeds its limit. The text is a clause about the server."""
