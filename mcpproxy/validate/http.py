"""A server over HTTP under test, and all connections to it: every byte of them is on the tape.

The copy is taken where a connection is read and written, beneath the HTTP library, so that the tape holds
what really passed; it becomes heads, bodies and events in the same way as in a recording of the proxy.
"""

import asyncio
import json
import os
import ssl
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, Final, cast
from urllib.parse import urlsplit

import httpcore

from mcpproxy.protocol.mirrors import Mirrors
from mcpproxy.recorder.http.assembly import HttpAssembly
from mcpproxy.relay import journal
from mcpproxy.session.frame import CLIENT, Close, ExchangeEnd, Frame, RequestHead, ResponseHead
from mcpproxy.trace.records import Recorded
from mcpproxy.validate.errors import CouldNotStartError, GoneError, TimedOutError
from mcpproxy.validate.exchange import Exchange, Headers
from mcpproxy.validate.recorded_session import Tape

CONNECT_S: Final = 10.0
_LONGEST_RETRY_S: Final = 3.0

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
        timeouts = {"timeout": {"connect": CONNECT_S}}
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
            exchange.failure = f"cannot be reached (no connection within {CONNECT_S:g} s)"
        except (httpcore.NetworkError, httpcore.ProtocolError) as fault:
            exchange.failure = f"cut the exchange short ({str(fault) or type(fault).__name__})"
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


class _Backend(httpcore.AsyncNetworkBackend):
    """Connects as usual, and has every connection copied."""

    def __init__(self, server: HttpServer) -> None:
        self._server: Final = server
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


async def reachable(url: str) -> None:
    """See whether anybody listens at ``url``.

    Raises:
        CouldNotStartError: nobody does.
    """
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        async with asyncio.timeout(CONNECT_S):
            _, writer = await asyncio.open_connection(parts.hostname, port)
    except (OSError, TimeoutError) as fault:
        reason = fault.strerror or "no connection in time"
        raise CouldNotStartError(f"{url}: cannot be reached: {reason.lower()}") from None
    writer.close()
