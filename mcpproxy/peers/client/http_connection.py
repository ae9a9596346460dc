"""A connection to a server: HTTP/1.1, and a record of all bytes where they are read and written.

A request is written in one piece, so that the server wakes only once for it.
"""

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final, Protocol, cast

import h11

from mcpproxy.base.upstream.http_proxy import HttpProxy
from mcpproxy.base.upstream.tunnels import proxied_socket
from mcpproxy.errors import McpProxyError
from mcpproxy.record.relay import journal as journals

_LONGEST_HEAD: Final = 256 << 10
"""How many bytes the head of a response may have."""
_MOST_UNREAD: Final = 1 << 20
"""How many bytes of a response may wait for their reader before we stop reading from the socket."""

_NO_RESPONSE: Final = "it closed the connection without a response"

_BETWEEN_EXCHANGES: Final = {h11.CLIENT: h11.IDLE, h11.SERVER: h11.IDLE}
"""The states of h11 while no exchange is under way."""

_HAPPY_EYEBALLS_S: Final = 0.25
"""How long one address of a host is tried alone, in seconds (RFC 8305)."""

Fields = Sequence[tuple[bytes, bytes]]


class Tape(Protocol):
    """Gets a copy of the bytes of connections, as records of a journal (the raw bytes of a recording)."""

    def record_bytes(self, kind: int, payload: bytes, connection: int) -> None:
        """Record bytes of a connection, or the end of one direction; ``kind`` is a kind of journal record."""
        ...

    def note(self, what: str, why: str) -> None:
        """Record an event other than bytes: ``what`` is its kind, and ``why`` its reason as a clause."""
        ...


class CutShortError(McpProxyError):
    """An exchange ended early, the server sends something that is not HTTP, or our request cannot be sent.

    The text says which.
    """


class HttpConnection(asyncio.Protocol):
    """A connection, for one exchange at a time.

    Its records in the journal have the ``number`` of the connection. The first one contains ``peers``: the
    names of the client and of the server (``upstream``).
    """

    def __init__(
        self, tape: Tape, number: int, peers: Mapping[str, str], proxy: HttpProxy | None = None
    ) -> None:
        self._tape: Final = tape
        self._number: Final = number
        self._peers: Final = peers
        self._proxy: Final = proxy  # a proxy that gets whole requests, because there is no TLS
        self._http: Final = h11.Connection(h11.CLIENT, _LONGEST_HEAD)
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._unread = 0
        self._has_room: Final = asyncio.Event()
        self._has_room.set()
        self._ended: set[int] = set()
        """The directions whose end is recorded, as kinds of journal records."""
        self._fault: Exception | None = None
        self.idle_since = 0.0
        """When its last exchange ended, in seconds of the event loop's clock; 0 before that. The owner sets
        it when it keeps the connection for the next exchange."""

    @classmethod
    async def open(
        cls,
        tape: Tape,
        number: int,
        client: str,
        host: str,
        port: int,
        tls: ssl.SSLContext | None,
        proxy: HttpProxy | None = None,
    ) -> "HttpConnection":
        """Return a new connection of the program ``client``, through ``proxy`` if there is one.

        With ``tls`` it is encrypted. ``tape`` and ``number`` are for its records.

        Raises:
            OSError: the server, or the proxy, cannot be reached.
            ProxyError: the proxy refuses the connection.
        """
        loop, peers = asyncio.get_running_loop(), {"client": client, "upstream": f"{host}:{port}"}
        if proxy is None:
            _, connection = await loop.create_connection(
                lambda: cls(tape, number, peers),
                host,
                port,
                ssl=tls,
                happy_eyeballs_delay=_HAPPY_EYEBALLS_S,
            )
            return connection
        sock = await proxied_socket(proxy, host, port, is_tls=tls is not None)
        _, connection = await loop.create_connection(
            lambda: cls(tape, number, peers, proxy if tls is None else None),
            sock=sock,
            ssl=tls,
            server_hostname=host if tls else None,
        )
        return connection

    @property
    def is_reusable(self) -> bool:
        """Whether the connection is open, between exchanges, and without unexpected bytes of the server."""
        return not self._ended and self._http.states == _BETWEEN_EXCHANGES and not self._http.trailing_data[0]

    @property
    def was_used(self) -> bool:
        """Whether an earlier exchange on it was completed."""
        return self.idle_since > 0

    async def send(self, method: str, target: str, fields: Fields, body: bytes) -> None:
        """Send a request, and return when it is written, or the connection is lost.

        Raises:
            CutShortError: the request cannot be sent: it is not valid HTTP, or the connection is over.
        """
        assert self._transport is not None
        try:
            request = h11.Request(method=method, target=target, headers=list(fields))
            written = b"".join(
                self._http.send(event) or b"" for event in (request, h11.Data(data=body), h11.EndOfMessage())
            )
        except h11.LocalProtocolError as fault:
            raise CutShortError(str(fault)) from None
        self._tape.record_bytes(journals.CLIENT, written, self._number)
        if self._proxy is not None:  # the recording has the request as the server gets it from the proxy
            authority = next(value for name, value in fields if name.lower() == b"host")
            written = self._proxy.request(authority, written)
        self._transport.write(written)
        await self._has_room.wait()

    async def response(self) -> h11.Response:
        """Return the head of the response; pass over informational ones (1xx).

        Raises:
            CutShortError: there is no response, or it is not HTTP.
        """
        while not isinstance(event := await self._next_event(), h11.Response):
            if isinstance(event, h11.ConnectionClosed):
                raise CutShortError(_NO_RESPONSE)
        return event

    async def body(self) -> AsyncIterator[bytes]:
        """Yield the pieces of the response's body.

        Raises:
            CutShortError: the body is cut short, or is not HTTP.
        """
        while isinstance(event := await self._next_event(), h11.Data):
            yield bytes(event.data)

    def end_exchange(self) -> None:
        """Make the connection ready for the next exchange, or close it if it cannot be used again."""
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        if not self.is_reusable:
            self.close()

    def close(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()
        self._record_end(journals.CLIENT_EOF)
        # The server may have had more to send, so a body that ends with the connection may be incomplete.
        self._record_end(journals.SERVER_EOF, journals.DROPPED)

    async def _next_event(self) -> "h11.Event | type[h11.PAUSED]":
        """Return the next event of the response.

        Raises:
            CutShortError: there is none, because the connection is lost or its bytes are not HTTP.
        """
        while True:
            is_before_head = self._http.their_state is h11.SEND_RESPONSE
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as fault:
                if is_before_head and self._http.trailing_data == (b"", True):
                    raise CutShortError(_NO_RESPONSE) from None  # the text of h11 is about its own states
                raise CutShortError(str(fault)) from None
            if event is not h11.NEED_DATA:
                return cast("h11.Event", event)
            if self._fault is not None:
                raise CutShortError(str(self._fault) or type(self._fault).__name__)
            self._unread = 0
            if self._transport is not None:
                self._transport.resume_reading()
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _record_end(self, kind: int, how: bytes = b"") -> None:
        """Record the end of one direction, once; ``how`` is ``journals.RESET``, ``DROPPED`` or empty."""
        if kind not in self._ended:
            self._ended.add(kind)
            self._tape.record_bytes(kind, how, self._number)

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(0)  # there is room when everything is written
        sock: socket.socket = transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # a vanished server ends an idle stream
        self._tape.record_bytes(journals.CONNECT, json.dumps(self._peers).encode(), self._number)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        self._tape.record_bytes(journals.SERVER, data, self._number)
        self._http.receive_data(data)
        self._unread += len(data)
        if self._unread > _MOST_UNREAD:
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        self._record_end(journals.SERVER_EOF)
        self._http.receive_data(b"")
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fault = exc or ConnectionAbortedError("the connection was closed")
        self._record_end(journals.CLIENT_EOF)
        self._record_end(journals.SERVER_EOF, journals.RESET if exc is not None else b"")
        self._has_room.set()
        self._wake()

    def pause_writing(self) -> None:
        self._has_room.clear()

    def resume_writing(self) -> None:
        self._has_room.set()
