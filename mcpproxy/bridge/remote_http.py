"""HTTP exchanges with a remote server."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Final
from urllib.parse import urlsplit

import h11

from mcpproxy.base.client_connection import CONNECT_S, system_reason, tls_context
from mcpproxy.base.named_url import ForeignUrlError, resolved
from mcpproxy.base.tls_failures import refusal, tls_reason
from mcpproxy.bridge.http_connection import CutShortError, HttpConnection
from mcpproxy.bridge.leg import Leg
from mcpproxy.errors import McpProxyError
from mcpproxy.framing.sse import LIMIT_BYTES, SseBlock, SseFramer

LONGEST_BODY: Final = 64 << 20
"""The longest JSON body. A longer one is not read to its end."""

_MOST_REDIRECTS: Final = 5
_REDIRECTS: Final = (307, 308)
"""Statuses after which the same request is sent again to another URL."""

_REUSED_FOR_S: Final = 4.0
"""How long an idle connection is used again. Common servers close theirs after five seconds, and a request
that crosses that end is lost."""

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}

Headers = Sequence[tuple[str, str]]


class RemoteError(McpProxyError):
    """The server cannot be reached, or has cut an exchange short. The text is a clause about the server."""


class UnreachableError(RemoteError):
    """There is no connection to the server."""


class TooLongError(RemoteError):
    """The server sends an event or a body that is longer than any that is passed on."""


class HttpResponse:
    """The response of one exchange, while its body can be read."""

    def __init__(self, connection: HttpConnection, head: h11.Response) -> None:
        self._connection: Final = connection
        self._head: Final = head
        self.status: Final = head.status_code

    def header(self, name: str) -> str:
        """Return a header field, empty if there is none; ``name`` is in lower case."""
        wanted = name.encode()
        return next((value.decode("latin-1") for key, value in self._head.headers if key == wanted), "")

    @property
    def is_stream(self) -> bool:
        """Whether the body is an event stream."""
        return self.header("content-type").lower().startswith("text/event-stream")

    async def body(self) -> bytes:
        """Return the whole body."""
        body = bytearray()
        with _mapped_errors():
            async for chunk in self._connection.body():
                body += chunk
                if len(body) > LONGEST_BODY:
                    raise TooLongError(f"sent a body of more than {LONGEST_BODY >> 20} MiB")
        return bytes(body)

    async def events(self) -> AsyncIterator[SseBlock]:
        """Yield the events of a stream.

        Raises:
            RemoteError: it is cut short.
            TooLongError: an event is too long, and perhaps has no end.
        """
        framer = SseFramer()
        with _mapped_errors():
            async for chunk in self._connection.body():
                for block in framer.feed(chunk, 0):
                    if not block.complete:
                        raise TooLongError(f"sent an event of more than {LIMIT_BYTES >> 20} MiB")
                    yield block


class RemoteServer:
    """The server at ``url``. ``headers`` are sent with every request to its origin.

    ``url`` changes if the server redirects requests to another path.
    """

    def __init__(self, url: str, headers: Headers, leg: Leg, *, is_insecure: bool) -> None:
        self.url = url
        self._headers: Final = tuple(headers)
        self._leg: Final = leg
        self._tls: Final = tls_context(insecure=is_insecure) if url.startswith("https:") else None
        self._idle: Final[list[HttpConnection]] = []
        self._last_number = 0

    def resolve(self, reference: bytes) -> str:
        """Return the URL that the server names.

        Raises:
            RemoteError: nothing may be sent there.
        """
        try:
            return resolved(self.url, reference)
        except ForeignUrlError as fault:
            raise RemoteError(str(fault)) from None

    @asynccontextmanager
    async def exchange(
        self,
        method: str,
        headers: Headers,
        body: bytes = b"",
        *,
        url: str = "",
        on_sent: Callable[[], None] | None = None,
    ) -> AsyncGenerator[HttpResponse]:
        """Send a request, and yield its response. Redirects to the same origin are followed.

        ``on_sent`` is called when the body has been written.

        Raises:
            RemoteError: the server cannot be reached, or cuts the exchange short.
        """
        fields = [
            (name.encode("latin-1", "replace"), value.encode("latin-1", "replace"))
            for name, value in (*headers, *self._headers)
        ]
        if body or method == "POST":
            fields.append((b"Content-Length", b"%d" % len(body)))
        for _ in range(_MOST_REDIRECTS):
            target = url or self.url
            async with self._connected(target) as connection:
                try:
                    await connection.send(method, *_target_and_fields(target, fields), body)
                    if on_sent is not None:
                        on_sent()
                    response = HttpResponse(connection, await connection.response())
                except CutShortError as fault:
                    await self._check_refusal(target)
                    raise RemoteError(f"cut the exchange short ({fault})") from None
                if response.status not in _REDIRECTS or not response.header("location"):
                    yield response
                    return
                moved = self.resolve(response.header("location").encode("latin-1"))
                await response.body()
            if not url:
                self.url = moved
            else:
                url = moved
        raise RemoteError(f"redirects more than {_MOST_REDIRECTS} times")

    @asynccontextmanager
    async def _connected(self, url: str) -> AsyncGenerator[HttpConnection]:
        """Provide a connection, which is kept for the next exchange if this one comes to its end."""
        now_s = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_reusable and now_s - connection.idle_since < _REUSED_FOR_S:
                break
            connection.close()
        else:
            with self._noted():
                connection = await self._open(url)
        try:
            yield connection
        finally:
            connection.end_exchange()
            if connection.is_reusable:
                connection.idle_since = asyncio.get_running_loop().time()
                self._idle.append(connection)

    async def _open(self, url: str) -> HttpConnection:
        """Return a new connection.

        Raises:
            UnreachableError: there is none.
        """
        self._last_number += 1
        try:
            async with asyncio.timeout(CONNECT_S):
                return await HttpConnection.open(
                    self._leg, self._last_number, *_host_and_port(url), self._tls
                )
        except TimeoutError:
            raise UnreachableError(f"cannot be reached (no connection within {CONNECT_S:g} s)") from None
        except OSError as fault:
            raise UnreachableError(f"cannot be reached ({_reason(fault)})") from None

    async def _check_refusal(self, url: str) -> None:
        """Find out whether the server refuses our TLS, after it has cut an exchange short.

        Raises:
            UnreachableError: it does.
        """
        if self._tls is not None and (reason := await refusal(*_host_and_port(url))):
            with self._noted():
                raise UnreachableError(f"cannot be reached ({reason})")

    @contextmanager
    def _noted(self) -> Generator[None]:
        """Record why the server cannot be reached."""
        try:
            yield
        except UnreachableError as fault:
            self._leg.note("upstream-failed", str(fault))
            raise

    async def close(self) -> None:
        """Close the connections that no exchange uses."""
        for connection in self._idle:
            connection.close()
        self._idle.clear()
        await asyncio.sleep(0)  # the event loop closes the sockets


def _host_and_port(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or _DEFAULT_PORTS[parts.scheme]


def _target_and_fields(url: str, fields: list[tuple[bytes, bytes]]) -> tuple[str, list[tuple[bytes, bytes]]]:
    """Return the target of a request, and its fields with those that name the server."""
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    host = parts.netloc.removesuffix(f":{_DEFAULT_PORTS[parts.scheme]}")
    return target, [(b"Host", host.encode("latin-1")), *fields]


@contextmanager
def _mapped_errors() -> Generator[None]:
    """Raise ``RemoteError`` in the place of the errors of a connection."""
    try:
        yield
    except CutShortError as fault:
        raise RemoteError(f"cut the exchange short ({fault})") from None


def _reason(fault: OSError) -> str:
    """Return why there is no connection, in the system's words if they are known."""
    if isinstance(fault, ssl.SSLError):
        return tls_reason(fault, "--insecure")
    return system_reason(fault)
