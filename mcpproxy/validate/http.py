"""A server over HTTP under test: every byte of every connection is on the tape.

The copy is taken where the connection is read and written, beneath the HTTP library, so that the tape holds
what really passed; it becomes heads, bodies and events in the same way as in a recording of the proxy.

``HttpServer`` is the server and all connections to it; ``HttpWire`` is one MCP session with it, by Streamable
HTTP or, where the server has nothing else, by the HTTP+SSE of 2024-11-05.
"""

import asyncio
import json
import os
import ssl
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, cast
from urllib.parse import urljoin, urlsplit

import httpcore

from mcpproxy.framing.sse import SseFramer
from mcpproxy.protocol.jsonrpc import (
    JSON,
    Absent,
    Batch,
    ErrorResponse,
    Notification,
    Request,
    Response,
    parse,
)
from mcpproxy.protocol.mirrors import ANNOTATION, Mirrors, argument, mirrors
from mcpproxy.protocol.revisions import STATELESS, VERSION_KEY
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
    endpoint: str = ""
    """Where an ``endpoint`` event says that messages go: the mark of HTTP+SSE."""
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    """Set with the head of the response, or with the failure."""
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    """Set with every frame of the server, and with the end; who waits for more clears it."""
    over: asyncio.Event = field(default_factory=asyncio.Event)
    is_asked: bool = False
    written: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when all that we say has left us."""
    _held: list[Frame] = field(default_factory=list[Frame])
    _framer: SseFramer = field(default_factory=SseFramer)

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
            self.wire.came(frame)

    def read(self, chunk: bytes) -> None:
        """Some of the body, with the session id in an ``endpoint`` event, which the tape has not."""
        if self.endpoint or not self.is_stream:
            return
        for block in self._framer.feed(chunk, 0):
            if block.event == "endpoint" and block.data and block.complete:
                self.endpoint = block.data.decode("utf-8", "replace").strip()
                self.heard.set()

    async def until(self, is_enough: Callable[[], bool]) -> None:
        """Wait until what came is enough, or nothing more will come."""
        while not is_enough() and not self.over.is_set():
            self.heard.clear()
            await self.heard.wait()

    @property
    def seen(self) -> tuple[int, ...]:
        """The numbers of all heads and frames of it, for evidence."""
        return tuple(sorted({*self.heads, *([self.seq] if self.seq else []), *(f.seq for f in self.frames)}))


_current: ContextVar[Exchange | None] = ContextVar("_current", default=None)


class HttpServer:
    """The server at ``url``, and the connections to it. ``headers`` go with every request.

    ``mirrors`` are the tools that want arguments in headers, by name, as far as they were listed.
    """

    def __init__(self, tape: Tape, url: str, headers: Headers, *, insecure: bool = False) -> None:
        self.tape: Final = tape
        self.url: Final = url
        self.headers: Final = tuple(headers)
        self.mirrors: Final[dict[str, Mirrors]] = {}
        self.is_older = False
        """Whether it has turned out to speak HTTP+SSE alone."""
        self._exchanges: Final[dict[int, Exchange]] = {}
        start = {"endpoint": urlsplit(url).path or "/", "salt": os.urandom(32).hex()}
        self._assembly: Final = HttpAssembly(json.dumps(start).encode())
        self._connections = 0
        context = ssl.create_default_context() if url.startswith("https:") else None
        if context is not None and insecure:
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
        is_enough: Callable[[Exchange], bool] | None = None,
        is_anonymous: bool = False,
    ) -> Exchange:
        """One exchange with just these headers (``Host`` and ``Content-Length`` apart), seen to its end.

        ``until_head`` comes back as soon as the head of the answer is there, and lets go of the rest, as does
        a frame with which it ``is_enough``; ``is_anonymous`` leaves the headers out that go with every
        request.

        Raises:
            GoneError: the server cannot be reached, or cut the exchange short.
            TimedOutError: it was not over in time.
        """
        exchange = Exchange()
        task = self.start(exchange, method, headers, body, url=url, is_anonymous=is_anonymous)
        try:
            async with asyncio.timeout(timeout_s):
                await (exchange.begun if until_head or is_enough else exchange.over).wait()
                if is_enough is not None:
                    await exchange.until(lambda: is_enough(exchange))
        except TimeoutError:
            what = "the answer did not end" if exchange.status else "no answer came"
            raise TimedOutError(f"{what} within {timeout_s:g} s", exchange.seen) from None
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if exchange.failure:
            raise GoneError(f"the server {exchange.failure}", exchange.seen)
        return exchange

    async def overheard(
        self, headers: Headers, is_enough: Callable[[Exchange], bool], for_s: float
    ) -> Exchange:
        """GET a stream, and read it until it is enough, it ends, or the time is over."""
        exchange = Exchange()
        task = self.start(exchange, "GET", headers)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(for_s):
                    await exchange.until(lambda: is_enough(exchange))
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return exchange

    async def dropped(self, headers: Headers, body: bytes) -> Exchange:
        """POST, and let go of the connection before an answer can be read."""
        exchange = Exchange()
        task = self.start(exchange, "POST", headers, body)
        waits = [asyncio.create_task(event.wait()) for event in (exchange.written, exchange.over)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            task.cancel()
            for wait in waits:
                wait.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return exchange

    def start(
        self,
        exchange: Exchange,
        method: str,
        headers: Headers = (),
        body: bytes = b"",
        *,
        url: str = "",
        is_anonymous: bool = False,
    ) -> "asyncio.Task[None]":
        """Begin an exchange; it is over when its event says so."""
        return self.spawn(self.run(exchange, method, headers, body, url=url, is_anonymous=is_anonymous))

    def spawn(self, coroutine: Coroutine[None, None, None]) -> "asyncio.Task[None]":
        """A task that ends with the server's connections at the latest."""
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def run(
        self,
        exchange: Exchange,
        method: str,
        headers: Headers,
        body: bytes,
        *,
        url: str = "",
        is_anonymous: bool = False,
    ) -> None:
        """An exchange from beginning to end. What goes wrong is told by its ``failure``."""
        _current.set(exchange)
        fields = [
            (name.encode("latin-1", "replace"), value.encode("latin-1", "replace"))
            for name, value in (*(() if is_anonymous else self.headers), *headers)
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
                async for chunk in response.aiter_stream():
                    exchange.read(chunk)
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
            exchange.heard.set()

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
            exchange.seq, exchange.is_asked = frame.seq, True
            return
        exchange.frames.append(frame)
        exchange.heard.set()
        if frame.event is not None:
            if frame.event.id is not None:
                exchange.last_id = frame.event.id
            if frame.event.retry is not None:
                exchange.retry_s = min(frame.event.retry / 1000, _LONGEST_RETRY_S)
            if frame.event.name == "endpoint":
                return
        if frame.raw or frame.event is None:
            exchange.came(frame)


class HttpWire:
    """One MCP session with ``server``.

    ``session_id`` and ``version`` go into its headers once they are known. ``stream`` is what the server says
    everything on, if it ``is_older`` than Streamable HTTP.
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
        self.stream: Exchange | None = None
        self._streaming: asyncio.Task[None] | None = None
        self._posts: Final[dict[Exchange, asyncio.Task[None]]] = {}

    @property
    def is_older(self) -> bool:
        """Whether this session goes by HTTP+SSE."""
        return self.stream is not None

    async def open(self) -> None:
        """Nothing is sent yet: the first message shows whether somebody is there.

        Raises:
            GoneError: the server speaks HTTP+SSE, and does not begin a stream now.
        """
        if self.server.is_older and not await self.fall_back(_CONNECT_S):
            raise GoneError("the server did not begin another stream with an endpoint event")

    async def fall_back(self, timeout_s: float) -> bool:
        """Go over to HTTP+SSE, if a GET opens a stream of it; whether it does."""
        stream = Exchange(self)
        self._streaming = self.server.spawn(self._stream(stream))
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await stream.until(lambda: bool(stream.endpoint))
        if stream.endpoint:
            self.stream = stream
            self.server.is_older = True
            return True
        await self._end_stream()
        return False

    def headers(self, raw: bytes = b"") -> list[tuple[str, str]]:
        """What a good client sends with the message ``raw``, or with a request without body."""
        accept = "application/json, text/event-stream" if raw else "text/event-stream"
        found = [("Accept", accept)]
        if raw:
            found.append(("Content-Type", "application/json"))
        if self.session_id:
            found.append(("Mcp-Session-Id", self.session_id))
        message = parse(raw) if raw else None
        said = message if isinstance(message, Request | Notification) else None
        params = said.params if said else None
        version = _at(params, "_meta", VERSION_KEY) or self.version
        if version:
            found.append(("MCP-Protocol-Version", str(version)))
        if said and (version in STATELESS or _at(params, "_meta", VERSION_KEY)):
            found.append(("Mcp-Method", said.method))
            name = next((name for key in _NAMES if isinstance(name := _at(params, key), str)), None)
            if name is not None:
                found.append(("Mcp-Name", encoded_name(name)))
            found += self._mirrored(said)
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
        # What HTTP+SSE says to a POST is no message: those come on the stream.
        exchange = self.last = Exchange(None if self.is_older else self)
        sent = asyncio.Event()

        def hear(event: Recorded) -> None:
            if isinstance(event, Frame) and event.sender == CLIENT and event.exchange == exchange.number:
                sent.set()

        self.tape.listen(hear)
        self._posts[exchange] = task = self.server.spawn(self._run(exchange, raw, headers))
        task.add_done_callback(lambda _: self._posts.pop(exchange, None))
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

    async def listen(self) -> None:
        """Open the stream for what the server says of its own, if it has one; nobody waits for it."""
        if not self.is_older and self._streaming is None:
            self._streaming = self.server.spawn(self.server.run(Exchange(self), "GET", self.headers(), b""))

    def abandon(self, exchange: Exchange) -> None:
        """Close the connection of a POST, whatever else would come on it."""
        if task := self._posts.get(exchange):
            task.cancel()

    def came(self, frame: Frame) -> None:
        """A frame of the server, which may list tools that want arguments in headers."""
        if ANNOTATION.encode() in frame.raw and isinstance(message := frame.message, Response):
            tools = message.result.get("tools") if isinstance(message.result, dict) else None
            for tool in tools if isinstance(tools, list) else ():
                if isinstance(tool, dict) and isinstance(name := tool.get("name"), str):
                    self.server.mirrors[name] = mirrors(tool.get("inputSchema"))
        self.hear(Came(frame))

    async def close(self) -> None:
        """End the session with DELETE, if it has an id."""
        await self._end_stream()
        if self.session_id:
            with suppress(GoneError, TimedOutError):
                await self.server.exchange("DELETE", self.headers(), timeout_s=_CLOSE_S)

    def _mirrored(self, request: Request | Notification) -> list[tuple[str, str]]:
        """The arguments of a call that its tool wants in headers."""
        params = None if isinstance(request.params, Absent) else request.params
        if request.method != "tools/call" or not isinstance(params, dict):
            return []
        wanted = self.server.mirrors.get(str(params.get("name")))
        found: list[tuple[str, str]] = []
        for path, header in wanted.headers if wanted else ():
            value = argument(params.get("arguments"), path)
            if isinstance(value, bool | int | str):
                text = str(value).lower() if isinstance(value, bool) else str(value)
                found.append((f"Mcp-Param-{header}", encoded_name(text)))
        return found

    async def _stream(self, stream: Exchange) -> None:
        await self.server.run(stream, "GET", self.headers(), b"")
        if self.stream is stream:
            self.hear(Gone(f"it {stream.failure or 'ended the stream of the session'}"))

    async def _end_stream(self) -> None:
        self.stream, task, self._streaming = None, self._streaming, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self, exchange: Exchange, raw: bytes, headers: Headers) -> None:
        url = urljoin(self.server.url, self.stream.endpoint) if self.stream else ""
        await self.server.run(exchange, "POST", headers, raw, url=url)
        if exchange.failure and not exchange.number:
            self.hear(Gone(f"it {exchange.failure}"))
            return
        if self.is_older and exchange.status < 300 and not exchange.failure:
            return  # The answer comes on the stream.
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
        exchange = _current.get()
        if exchange is not None and exchange.is_asked:
            exchange.written.set()

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
