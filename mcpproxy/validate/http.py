"""A server over HTTP under test: every byte of every connection is on the tape.

The copy is taken where the connection is read and written, beneath the HTTP library, so that the tape holds
what really passed; it becomes heads, bodies and events in the same way as in a recording of the proxy.

``HttpServer`` is the server and all connections to it; ``HttpWire`` is one MCP session with it.
"""

import asyncio
import json
import os
import ssl
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, cast
from urllib.parse import urlsplit

import httpcore

from mcpproxy.protocol.jsonrpc import JSON, Batch, ErrorResponse, Request, Response, parse
from mcpproxy.protocol.revisions import VERSION_KEY
from mcpproxy.recorder.http import HttpAssembly
from mcpproxy.relay import journal
from mcpproxy.replay.client_headers import encoded_name
from mcpproxy.session.frame import CLIENT, Close, ExchangeEnd, Frame, RequestHead, ResponseHead
from mcpproxy.trace.format import Recorded
from mcpproxy.validate.errors import CouldNotStartError, GoneError, TimedOutError
from mcpproxy.validate.tape import Tape
from mcpproxy.validate.wire import Came, Gone, Hear, News, Over

Headers = Sequence[tuple[str, str]]

_CONNECT_S: Final = 10.0
_RETRY_S: Final = 1.0
_LONGEST_RETRY_S: Final = 3.0
_RESUMPTIONS: Final = 5
_CLOSE_S: Final = 5.0
_NAMES: Final = ("name", "uri", "taskId")


@dataclass(eq=False, slots=True)
class Exchange:
    """One exchange as the tape saw it. ``number`` and ``status`` are 0 while there is none.

    ``seq`` is the frame number of what we said, or of the request's head if that had no body; ``frames`` are
    the server's frames, ``heads`` the numbers of both heads. ``failure`` says why it did not come to its end.
    """

    wire: "HttpWire | None" = None
    number: int = 0
    seq: int = 0
    status: int = 0
    headers: Headers = ()
    frames: list[Frame] = field(default_factory=list[Frame])
    heads: list[int] = field(default_factory=list[int])
    last_id: str = ""
    retry_s: float = _RETRY_S
    failure: str = ""
    is_cut: bool = False
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    """Set with the head of the response, or with the failure."""
    over: asyncio.Event = field(default_factory=asyncio.Event)
    _held: list[Frame] = field(default_factory=list[Frame])

    def header(self, name: str) -> str | None:
        """The value of the first header of that name."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    @property
    def media_type(self) -> str:
        """What the answer says that it is: ``application/json``."""
        return (self.header("content-type") or "").partition(";")[0].strip().lower()

    @property
    def is_stream(self) -> bool:
        """Whether the answer is an event stream."""
        return self.media_type == "text/event-stream"

    @property
    def body(self) -> bytes:
        """What the server said, the frames of it one after another."""
        return b"".join(frame.raw for frame in self.frames)

    def begin(self, status: int, headers: Headers) -> None:
        """The head of the answer is there, with its credentials, which the tape has not."""
        self.status, self.headers = status, headers
        if self.wire is not None and (id := self.header("mcp-session-id")):
            self.wire.session_id = id
        self.begun.set()
        held, self._held = self._held, []
        for frame in held:
            self.came(frame)

    def came(self, frame: Frame) -> None:
        """A frame of the server; nobody hears of it before the head."""
        if not self.begun.is_set():
            self._held.append(frame)
        elif self.wire is not None:
            self.wire.hear(Came(frame))

    @property
    def seen(self) -> tuple[int, ...]:
        """The numbers of all heads and frames of it, for evidence."""
        return tuple(sorted({*self.heads, *([self.seq] if self.seq else []), *(f.seq for f in self.frames)}))


_current: ContextVar[Exchange | None] = ContextVar("_current", default=None)


class HttpServer:
    """The server at ``url``, and the connections to it. ``headers`` go with every request.

    ``salt`` keys the masks of credentials on the tape.
    """

    def __init__(self, tape: Tape, url: str, headers: Headers, *, insecure: bool = False) -> None:
        self.tape: Final = tape
        self.url: Final = url
        self.headers: Final = tuple(headers)
        self._exchanges: Final[dict[int, Exchange]] = {}
        start = {"endpoint": urlsplit(url).path or "/", "salt": os.urandom(32).hex()}
        self._assembly: Final = HttpAssembly(json.dumps(start).encode())
        self._connections = 0
        context = ssl.create_default_context()
        if insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        self._pool: Final = httpcore.AsyncConnectionPool(
            ssl_context=context, max_connections=None, network_backend=_Backend(self)
        )
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        tape.listen(self._hear)

    async def exchange(
        self,
        method: str,
        headers: Headers = (),
        body: bytes = b"",
        *,
        url: str = "",
        timeout_s: float,
        until_head: bool = False,
    ) -> Exchange:
        """One exchange with just these headers (``Host`` and ``Content-Length`` apart), seen to its end.

        ``until_head`` comes back as soon as the head of the answer is there, and lets go of the rest.

        Raises:
            GoneError: the server cannot be reached, or cut the exchange short.
            TimedOutError: it was not over in time.
        """
        exchange = Exchange()
        task = self.start(exchange, method, headers, body, url=url)
        awaited = exchange.begun if until_head else exchange.over
        try:
            async with asyncio.timeout(timeout_s):
                await awaited.wait()
        except TimeoutError:
            what = "the answer did not end" if exchange.status else "no answer came"
            raise TimedOutError(f"{what} within {timeout_s:g} s", exchange.seen) from None
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if exchange.failure:
            raise GoneError(f"the server {exchange.failure}", exchange.seen)
        return exchange

    def start(
        self, exchange: Exchange, method: str, headers: Headers = (), body: bytes = b"", *, url: str = ""
    ) -> "asyncio.Task[None]":
        """Begin an exchange; it is over when its event says so."""
        return self.spawn(self.run(exchange, method, headers, body, url=url))

    def spawn(self, coroutine: Coroutine[None, None, None]) -> "asyncio.Task[None]":
        """A task that ends with the server's connections at the latest."""
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def run(
        self, exchange: Exchange, method: str, headers: Headers, body: bytes, *, url: str = ""
    ) -> None:
        """An exchange from beginning to end. What goes wrong is told by its ``failure``."""
        _current.set(exchange)
        fields = [
            (name.encode("latin-1", "replace"), value.encode("latin-1", "replace"))
            for name, value in (*self.headers, *headers)
        ]
        timeouts = {"timeout": {"connect": _CONNECT_S}}
        try:
            sent = self._pool.stream(
                method, url or self.url, headers=fields, content=body or None, extensions=timeouts
            )
            async with sent as response:
                exchange.begin(
                    response.status,
                    [(name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers],
                )
                async for _ in response.aiter_stream():
                    pass
        except httpcore.ConnectError as fault:
            exchange.failure = f"cannot be reached ({fault})"
        except httpcore.ConnectTimeout:
            exchange.failure = f"cannot be reached (no connection within {_CONNECT_S:g} s)"
        except (httpcore.NetworkError, httpcore.ProtocolError) as fault:
            exchange.failure = f"cut the exchange short ({fault or type(fault).__name__})"
        except httpcore.UnsupportedProtocol as fault:
            exchange.failure = f"cannot be reached ({fault})"
        finally:
            exchange.begun.set()
            exchange.over.set()

    async def close(self) -> None:
        """Let go of all connections, and of the tape."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(Exception):
            await self._pool.aclose()
        for event in self._assembly.end():
            self.tape.take(event)
        self.tape.close(Close("exited", exit_code=0, observed_at_ns=self.tape.now_ns()))

    # The copy of the connections.

    def connected(self, host: str, port: int) -> int:
        """A connection was made; its number."""
        self._connections += 1
        peers = {"client": "validate", "upstream": f"{host}:{port}"}
        self.copy(journal.CONNECT, json.dumps(peers).encode(), self._connections)
        return self._connections

    def copy(self, kind: int, payload: bytes, connection: int) -> None:
        """Some bytes passed, or a side has ended."""
        for event in self._assembly.take(kind, payload, self.tape.now_ns(), connection):
            self.tape.take(event)

    def _hear(self, event: Recorded) -> None:
        if isinstance(event, RequestHead):
            # The head is written by the task that runs the exchange.
            exchange = _current.get()
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
            self._hear_frame(exchange, event)
        elif isinstance(event, ExchangeEnd) and (exchange := self._exchanges.pop(event.exchange, None)):
            exchange.is_cut = event.cut

    def _hear_frame(self, exchange: Exchange, frame: Frame) -> None:
        if frame.sender == CLIENT:
            exchange.seq = frame.seq
            return
        exchange.frames.append(frame)
        if frame.event is not None:
            if frame.event.id is not None:
                exchange.last_id = frame.event.id
            if frame.event.retry is not None:
                exchange.retry_s = min(frame.event.retry / 1000, _LONGEST_RETRY_S)
        if frame.raw or frame.event is None:
            exchange.came(frame)


class HttpWire:
    """One MCP session with ``server``.

    ``session_id`` and ``version`` go into its headers once they are known.
    """

    transport = "http"

    def __init__(self, server: HttpServer) -> None:
        self.server: Final = server
        self.tape = server.tape
        self.hear: Hear = _nobody
        self.session_id = ""
        self.version = ""
        self.last: Exchange | None = None
        """The exchange of the last message that was sent."""
        self._listening: Exchange | None = None

    async def open(self) -> None:
        """Nothing is sent yet: the first message shows whether somebody is there."""

    def headers(self, raw: bytes = b"") -> list[tuple[str, str]]:
        """What a good client sends with the message ``raw``, or with a request without body."""
        accept = "application/json, text/event-stream" if raw else "text/event-stream"
        found = [("Accept", accept)]
        if raw:
            found.append(("Content-Type", "application/json"))
        if self.session_id:
            found.append(("Mcp-Session-Id", self.session_id))
        message = parse(raw) if raw else None
        params = message.params if isinstance(message, Request) else None
        version = _at(params, "_meta", VERSION_KEY)
        if isinstance(message, Request) and isinstance(version, str):
            found += [("MCP-Protocol-Version", version), ("Mcp-Method", message.method)]
            name = next((name for key in _NAMES if isinstance(name := _at(params, key), str)), None)
            if name is not None:
                found.append(("Mcp-Name", encoded_name(name)))
        elif self.version:
            found.append(("MCP-Protocol-Version", self.version))
        return found

    async def send(self, raw: bytes) -> int:
        """POST one message; the number of its frame, as soon as that has one.

        Raises:
            GoneError: the server cannot be reached.
        """
        return (await self.post(raw, self.headers(raw))).seq

    async def post(self, raw: bytes, headers: Headers) -> Exchange:
        """POST a message with just these headers, and go on as soon as it was sent.

        Raises:
            GoneError: the server cannot be reached.
        """
        exchange = self.last = Exchange(self)
        sent = asyncio.Event()

        def hear(event: Recorded) -> None:
            if isinstance(event, Frame) and event.sender == CLIENT and event.exchange == exchange.number:
                sent.set()

        self.tape.listen(hear)
        self.server.spawn(self._run(exchange, raw, headers))
        waits = [asyncio.create_task(sent.wait()), asyncio.create_task(exchange.begun.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            self.tape.unlisten(hear)
        if exchange.failure:
            raise GoneError(f"the server {exchange.failure}", exchange.seen)
        return exchange

    async def listen(self) -> Exchange:
        """Open the stream for what the server says of its own; comes back with the head of the answer."""
        exchange = self._listening = Exchange(self)
        self.server.start(exchange, "GET", self.headers())
        await exchange.begun.wait()
        return exchange

    async def close(self) -> None:
        """End the session with DELETE, if it has an id."""
        if self.session_id:
            with suppress(GoneError, TimedOutError):
                await self.server.exchange("DELETE", self.headers(), timeout_s=_CLOSE_S)

    async def _run(self, exchange: Exchange, raw: bytes, headers: Headers) -> None:
        await self.server.run(exchange, "POST", headers, raw)
        if exchange.failure and not exchange.number:
            self.hear(Gone(f"it {exchange.failure}"))
            return
        owed = _requests_in(raw) - _answers_in(exchange.frames)
        latest = exchange
        for _ in range(_RESUMPTIONS):
            if owed <= 0 or not latest.last_id or not latest.is_stream:
                break
            await asyncio.sleep(latest.retry_s)
            more = Exchange(self, last_id=latest.last_id)
            await self.server.run(more, "GET", [*self.headers(), ("Last-Event-ID", latest.last_id)], b"")
            owed -= _answers_in(more.frames)
            latest = more
        self.hear(Over(exchange.seq, exchange.status, exchange.failure))


class _Backend(httpcore.AsyncNetworkBackend):
    """Connects as usual, and has every connection copied."""

    def __init__(self, server: HttpServer) -> None:
        self._server: Final = server
        # Where anyio is missing, httpcore has a class of this name that can do nothing.
        self._inner: Final = cast("httpcore.AsyncNetworkBackend", httpcore.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        inner = await self._inner.connect_tcp(host, port, timeout, local_address, socket_options)
        return _Copied(inner, self._server, self._server.connected(host, port))

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)


class _Copied(httpcore.AsyncNetworkStream):
    """A connection whose bytes are copied as they are read and written; inside TLS, in the clear."""

    def __init__(self, inner: httpcore.AsyncNetworkStream, server: HttpServer, number: int) -> None:
        self._inner: Final = inner
        self._server: Final = server
        self._number: Final = number
        self._is_closed = False

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data = await self._inner.read(max_bytes, timeout)
        self._server.copy(journal.SERVER if data else journal.SERVER_EOF, data, self._number)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if buffer:
            self._server.copy(journal.CLIENT, buffer, self._number)
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._server.copy(journal.CLIENT_EOF, b"", self._number)
            self._server.copy(journal.SERVER_EOF, b"", self._number)
        await self._inner.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.AsyncNetworkStream:
        inner = await self._inner.start_tls(ssl_context, server_hostname, timeout)
        return _Copied(inner, self._server, self._number)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def _nobody(news: News) -> None:
    """Nobody listens yet."""


def _requests_in(raw: bytes) -> int:
    message = parse(raw)
    singles = message.items if isinstance(message, Batch) else (message,)
    return sum(isinstance(single, Request) for single in singles)


def _answers_in(frames: Iterable[Frame]) -> int:
    found = 0
    for frame in frames:
        message = frame.message
        singles = message.items if isinstance(message, Batch) else (message,)
        found += sum(isinstance(single, Response | ErrorResponse) for single in singles)
    return found


def _at(value: object, *path: str) -> JSON:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None  # pyright: ignore
    return value if isinstance(value, str) else None


async def reachable(url: str) -> None:
    """See whether anybody listens at ``url``.

    Raises:
        CouldNotStartError: nobody does.
    """
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        async with asyncio.timeout(_CONNECT_S):
            _, writer = await asyncio.open_connection(parts.hostname, port)
    except (OSError, TimeoutError) as fault:
        reason = fault.strerror or "no connection in time"
        raise CouldNotStartError(f"{url}: cannot be reached: {reason.lower()}") from None
    writer.close()
