"""The HTTP server that a client of ours talks to: exchanges with it, over connections that are reused.

Every byte is recorded where a connection is read or written, so a recording holds what was really sent:
without the encryption, and without what is added to a request for a proxy.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Final
from urllib.parse import urlsplit

import h11

from mcpproxy.base.named_url import DEFAULT_PORTS, ForeignUrlError, host_and_port, resolved
from mcpproxy.base.upstream.connecting import CONNECT_S, system_reason, tls_context
from mcpproxy.base.upstream.http_proxy import proxy_for
from mcpproxy.base.upstream.redirects import SAME_REQUEST
from mcpproxy.base.upstream.settings import USUAL, UpstreamSettings
from mcpproxy.base.upstream.tls_failures import tls_reason
from mcpproxy.base.upstream.tunnels import ProxyError, refusal
from mcpproxy.errors import McpProxyError
from mcpproxy.peers.client.http_connection import CutShortError, HttpConnection, Tape
from mcpproxy.record.framing.sse import LIMIT_BYTES, SseBlock, SseFramer

LONGEST_BODY: Final = 64 << 20
"""The longest JSON body, in bytes. A longer one is not read to its end."""

_MOST_REDIRECTS: Final = 5
_REUSED_FOR_S: Final = 4.0
"""How long after its last exchange a connection is reused. Common servers close idle connections after five
seconds, and a request that is sent at that moment is lost."""

Headers = Sequence[tuple[str, str]]


class RemoteError(McpProxyError):
    """The server cannot be reached, or has cut an exchange short. The text is a clause about the server."""


class UnreachableError(RemoteError):
    """There is no connection to the server, or it refuses our TLS, or a proxy refuses our request."""


class TooLongError(RemoteError):
    """The server sends an event or a body that is longer than our limit."""


class ForeignTargetError(RemoteError):
    """The server names a URL to which nothing may be sent."""


class HttpResponse:
    """The response of one exchange, while its body can be read."""

    def __init__(self, connection: HttpConnection, head: h11.Response) -> None:
        self._connection: Final = connection
        self.status: Final = head.status_code
        self.headers: Final = [
            (name.decode("latin-1"), value.decode("latin-1")) for name, value in head.headers
        ]
        """The header fields, their names in lower case."""

    def header(self, name: str) -> str:
        """Return a header field, empty if there is none; ``name`` is in lower case."""
        return next((value for key, value in self.headers if key == name), "")

    @property
    def is_stream(self) -> bool:
        """Whether the body is an event stream."""
        return self.header("content-type").partition(";")[0].strip().lower() == "text/event-stream"

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes, still in its content coding, such as gzip.

        Raises:
            RemoteError: it is cut short.
        """
        try:
            async for chunk in self._connection.body():
                yield chunk
        except CutShortError as fault:
            raise RemoteError(f"cut the exchange short ({fault})") from None

    async def body(self) -> bytes:
        """Return the whole body.

        Raises:
            RemoteError: it is cut short.
            TooLongError: it is too long.
        """
        body = bytearray()
        async for chunk in self.chunks():
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
        async for chunk in self.chunks():
            for block in framer.feed(chunk, 0):
                if not block.complete:
                    raise TooLongError(f"sent an event of more than {LIMIT_BYTES >> 20} MiB")
                yield block


class RemoteServer:
    """The server at ``url``. ``headers`` are sent with every request to its origin.

    ``upstream`` says how it is reached. ``tape`` gets a copy of all bytes, and ``client`` is the name of our
    program in it. With ``follows_redirects``, ``url`` changes if the server redirects requests to another
    path of its origin.

    Raises:
        McpProxyError: the URL is malformed, or that of the proxy is.
        OSError: a certificate file of ``upstream`` cannot be read or used.
    """

    def __init__(
        self,
        url: str,
        headers: Headers,
        tape: Tape,
        client: str,
        *,
        upstream: UpstreamSettings = USUAL,
        follows_redirects: bool = False,
    ) -> None:
        try:
            host, port = host_and_port(url)
            if not host.encode("idna"):
                raise ValueError("it names no host")
        except ValueError as fault:
            raise McpProxyError(f"{url}: {fault}; give the URL of an MCP endpoint") from None
        self.url = url
        self.headers: Final = tuple(headers)
        self._tape: Final = tape
        self._client: Final = client
        self._follows_redirects: Final = follows_redirects
        self._tls: Final = tls_context(upstream) if url.startswith("https:") else None
        self._upstream: Final = upstream
        self._proxy: Final = proxy_for(upstream, host, port, is_tls=self._tls is not None)
        self._idle: Final[list[HttpConnection]] = []
        self._reuses = True
        """Whether connections are reused: no longer after a reused one brought no response. The server may
        have processed that request, so it is not sent again (RFC 9110, section 9.2.2)."""
        self._last_number = 0

    def resolve(self, reference: bytes, *, loopback_is_one: bool = False) -> str:
        """Return the URL that the server names, absolute or relative to ours.

        With ``loopback_is_one``, ``localhost`` and the other names of this machine count as one host.

        Raises:
            ForeignTargetError: nothing may be sent there.
        """
        try:
            return resolved(self.url, reference, loopback_is_one=loopback_is_one)
        except ForeignUrlError as fault:
            raise ForeignTargetError(str(fault)) from None

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
        """Send a request, and yield its response.

        The request has these headers, the ``headers`` of the server, ``Host`` and, if it has a body or is a
        POST, ``Content-Length``; the last two only if no header takes their place.

        ``url`` is by default the URL of the server. ``on_sent`` is called when the body has been written.

        Raises:
            RemoteError: the server cannot be reached, cuts the exchange short, redirects too often or to
                another origin.
        """
        fields = [
            (name.encode("latin-1", "replace"), value.encode("latin-1", "replace"))
            for name, value in (*headers, *self.headers)
        ]
        names = {name.lower() for name, _ in fields}
        if (body or method == "POST") and not names & {b"content-length", b"transfer-encoding"}:
            fields.append((b"Content-Length", b"%d" % len(body)))
        for _ in range(_MOST_REDIRECTS + 1):
            target = url or self.url
            async with self._connected(target) as connection:
                try:
                    await connection.send(method, *_target_and_fields(target, fields), body)
                    if on_sent is not None:
                        on_sent()
                    response = HttpResponse(connection, await connection.response())
                except CutShortError as fault:
                    await self._check_refusal(target)
                    if connection.was_used:
                        self._reuses = False
                        raise RemoteError(
                            f"cut the exchange short ({fault}; it had been kept open)"
                        ) from None
                    raise RemoteError(f"cut the exchange short ({fault})") from None
                if self._proxy is not None and self._tls is None and response.status == 407:
                    with self._noting_failure():
                        raise UnreachableError(f"cannot be reached ({self._proxy.refusal(407)})")
                is_redirect = response.status in SAME_REQUEST and response.header("location")
                if not (is_redirect and self._follows_redirects):
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
        """Yield a connection, which is kept for the next exchange if this one is completed.

        Raises:
            UnreachableError: as ``_open_connection``.
        """
        now_s = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if self._reuses and connection.is_reusable and now_s - connection.idle_since < _REUSED_FOR_S:
                break
            connection.close()
        else:
            with self._noting_failure():
                connection = await self._open_connection(url)
        try:
            yield connection
        finally:
            connection.end_exchange()
            if not self._reuses:
                connection.close()
            elif connection.is_reusable:
                connection.idle_since = asyncio.get_running_loop().time()
                self._idle.append(connection)

    async def _open_connection(self, url: str) -> HttpConnection:
        """Return a new connection.

        Raises:
            UnreachableError: the server, or the proxy before it, cannot be reached.
        """
        self._last_number += 1
        try:
            async with asyncio.timeout(CONNECT_S):
                return await HttpConnection.open(
                    self._tape, self._last_number, self._client, *host_and_port(url), self._tls, self._proxy
                )
        except TimeoutError:
            through = f" through {self._proxy.name}" if self._proxy else ""
            why = f"no connection{through} within {CONNECT_S:g} s"
            raise UnreachableError(f"cannot be reached ({why})") from None
        except ProxyError as fault:
            raise UnreachableError(f"cannot be reached ({fault})") from None
        except OSError as fault:
            raise UnreachableError(f"cannot be reached ({self._reason(fault)})") from None

    def _reason(self, fault: OSError) -> str:
        """Return why there is no connection, in the system's words if they are known."""
        return tls_reason(fault, self._upstream) if isinstance(fault, ssl.SSLError) else system_reason(fault)

    async def _check_refusal(self, url: str) -> None:
        """Find out whether the server refuses our TLS, after it has cut an exchange short.

        Raises:
            UnreachableError: it refuses our TLS.
        """
        if self._tls is not None and (reason := await refusal(*host_and_port(url), self._upstream)):
            with self._noting_failure():
                raise UnreachableError(f"cannot be reached ({reason})")

    @contextmanager
    def _noting_failure(self) -> Generator[None]:
        """Record why the server cannot be reached."""
        try:
            yield
        except UnreachableError as fault:
            self._tape.note("upstream-failed", str(fault))
            raise

    async def close(self) -> None:
        """Close the connections that no exchange uses."""
        for connection in self._idle:
            connection.close()
        self._idle.clear()
        await asyncio.sleep(0)  # the event loop closes the sockets


def _target_and_fields(url: str, fields: list[tuple[bytes, bytes]]) -> tuple[str, list[tuple[bytes, bytes]]]:
    """Return the target of a request, and its fields with a ``Host`` field."""
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    host = parts.netloc.removesuffix(f":{DEFAULT_PORTS[parts.scheme]}")
    if any(name.lower() == b"host" for name, _ in fields):
        return target, fields
    return target, [(b"Host", host.encode("latin-1")), *fields]
