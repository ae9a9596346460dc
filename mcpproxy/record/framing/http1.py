"""Parse the HTTP/1.x of one connection into pieces (see `pieces`).

The bytes come from the client, from the server, and from the proxy where it answers in the server's place.

The parser reads a copy of the traffic, so it stops nothing, and no bytes raise an exception. Where the
bytes of a side stop being HTTP, that is reported once (`Broken`), and the later bytes of the side are
returned unchanged. The pieces depend on the bytes and on the order of the calls, not on how the bytes of one
peer were cut into chunks. Only adjacent `BodyPart`s, and a `Broken` and the `OpaqueBytes` after it, may be
cut differently.

Each exchange consists of
- from the client: one `RequestStart`, its `BodyPart`s, then one `BodyEnd` or `Cut`;
- from the server or the proxy: any number of interim `ResponseStart`s (1xx), a final `ResponseStart`, its
  `BodyPart`s, then one `BodyEnd` or `Cut`. A request without an answer gets only a `Cut` of the server.
An exchange is over when both sides have ended. If the server answers a request whose head cannot be read
(with a 400, say), the exchange has no `RequestStart`.

Requests may be pipelined. A response belongs to the oldest request that has no response, and may come before
that request's body is over. A 101, or a 2xx to CONNECT, ends HTTP on the connection.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from mcpproxy.base.slotted import slotted
from mcpproxy.record.framing.bodies import request_body, response_body
from mcpproxy.record.framing.connection_side import ConnectionSide
from mcpproxy.record.framing.heads import TOKEN_BYTE, request_head, response_head
from mcpproxy.record.framing.pieces import (
    BodyEnd,
    BodyPart,
    Broken,
    Cut,
    OpaqueBytes,
    Piece,
    RequestStart,
    ResponseStart,
    Side,
)

__all__ = [
    "BodyEnd",
    "BodyPart",
    "Broken",
    "Cut",
    "Http1Connection",
    "OpaqueBytes",
    "Piece",
    "RequestStart",
    "ResponseStart",
    "Side",
]

_SWITCHED: Final = "the connection ceased to be HTTP"


class Http1Connection:
    """Parses one client connection. Feed it the bytes that each side sent, in the order they were read.

    When the connection is over, call both `client_eof` and `server_eof`, whichever side ended it and even if
    the server was never reached: only then are unanswered requests known to stay unanswered. Further calls
    of the two are harmless.
    """

    # There may be many idle connections, so each takes little memory.
    __slots__ = (
        "_exchanges",
        "_first",
        "_how",
        "_is_http",
        "_over",
        "_pieces",
        "_proxy",
        "_requests",
        "_reset",
        "_server",
    )

    def __init__(self) -> None:
        self._pieces: list[Piece] = []
        self._exchanges = _Exchanges()
        self._requests = _Requests(self._pieces, self._exchanges)
        self._server = _Responses("server", self._pieces, self._exchanges, self._requests, self._switch)
        self._proxy: _Responses | None = None  # on most connections the proxy sends nothing
        self._is_http = True
        self._over: tuple[Side, ...] = ()  # the sides that have ended
        self._first: Side = "client"  # the side that ended first, if any has ended
        self._how = ""  # how that side ended the connection, in words
        self._reset = False  # a side ended by a reset

    def client(self, data: bytes, at_ns: int) -> list[Piece]:
        """Parse bytes that the client sent; ``at_ns`` is when they were read."""
        self._requests.feed(data, at_ns)
        return self._take_pieces()

    def server(self, data: bytes, at_ns: int) -> list[Piece]:
        """Parse bytes that the server sent."""
        self._server.feed(data, at_ns)
        return self._take_pieces()

    def proxy(self, data: bytes, at_ns: int) -> list[Piece]:
        """Parse bytes that the proxy sent to the client in the server's place."""
        if self._proxy is None:
            self._proxy = _Responses("proxy", self._pieces, self._exchanges, self._requests, self._switch)
            if not self._is_http or len(self._over) == 2:
                self._proxy.stop("proxy", _SWITCHED, at_ns)
        self._proxy.feed(data, at_ns)
        return self._take_pieces()

    def client_eof(self, at_ns: int, reset: bool) -> list[Piece]:
        """Note that the client sends nothing more: it closed its side of the connection, or reset it."""
        return self._end(self._requests, at_ns, reset)

    def server_eof(self, at_ns: int, reset: bool) -> list[Piece]:
        """Note that the server sends nothing more: it closed its side of the connection, or reset it."""
        return self._end(self._server, at_ns, reset)

    @property
    def held_bytes(self) -> int:
        """How many bytes of incomplete heads are held."""
        proxy = self._proxy
        return len(self._requests.held) + len(self._server.held) + (len(proxy.held) if proxy else 0)

    def opaque(self, at_ns: int, why: str = _SWITCHED) -> list[Piece]:
        """Interpret no more bytes of the connection as HTTP, and cut the messages that are not over, for the
        reason ``why``. A 101 or a 2xx to CONNECT has the same effect.
        """
        self._switch("proxy", at_ns, why)
        return self._take_pieces()

    def _switch(self, by: Side, at_ns: int, why: str = _SWITCHED) -> None:
        self._is_http = False
        for stream in (self._requests, self._server, self._proxy):
            if stream is not None:
                stream.stop(by, why, at_ns)
        self._give_up(by, why, at_ns)

    def _end(self, stream: ConnectionSide, at_ns: int, reset: bool) -> list[Piece]:
        if not self._over:
            self._first = stream.of
            self._how = f"the {stream.of} {'reset' if reset else 'closed'} the connection"
        if stream.of not in self._over:
            self._over = (*self._over, stream.of)
        self._reset = self._reset or reset
        stream.end(self._first, self._how, self._reset, at_ns)
        if len(self._over) == 2:
            if self._proxy is not None:
                self._proxy.end(self._first, self._how, self._reset, at_ns)
            self._requests.stop(self._first, self._how, at_ns)
            self._give_up(self._first, f"{self._how}; no response came", at_ns)
        return self._take_pieces()

    def _give_up(self, by: Side, why: str, at_ns: int) -> None:
        """Report that the requests still waiting will not be answered."""
        waiting = self._exchanges.give_up()
        self._pieces += [Cut(exchange.number, "server", by, at_ns, why) for exchange in waiting]

    def _take_pieces(self) -> list[Piece]:
        pieces = self._pieces.copy()
        self._pieces.clear()
        return pieces


@slotted()
class _Exchange:
    """A request, and whether its final response has begun (``answered``)."""

    number: int
    method: str = ""
    switches: bool = False  # the answer may end HTTP on this connection: CONNECT, Upgrade
    answered: bool = False


class _Exchanges:
    """Matches responses to requests, in order."""

    __slots__ = ("_count", "_more", "_oldest", "_unread")

    def __init__(self) -> None:
        # The oldest request without a final response, and the later ones; usually there is one or none.
        self._oldest: _Exchange | None = None
        self._more: deque[_Exchange] | None = None
        self._count = 0
        # The exchange of a response that came before the whole head of its request was read.
        self._unread: _Exchange | None = None

    def add_request(self, method: str, switches: bool) -> _Exchange:
        """Add a request whose head was read."""
        exchange = self._unread or self._add_exchange()
        self._unread = None
        exchange.method, exchange.switches = method, switches
        return exchange

    def oldest(self, requests: ConnectionSide) -> _Exchange | None:
        """Return the exchange of the oldest request without a final response: the next response belongs to
        it.

        A request whose head is incomplete or cannot be read counts too. ``None`` means that there is none.
        """
        if self._oldest is None and (requests.held or requests.broken) and self._unread is None:
            self._unread = self._add_exchange()
        return self._oldest

    def remove_oldest(self) -> None:
        """Remove the oldest request: its final response has begun."""
        self._oldest = self._more.popleft() if self._more else None

    def give_up(self) -> list["_Exchange"]:
        """Remove and return all requests without a final response, oldest first."""
        waiting = [*filter(None, [self._oldest]), *(self._more or ())]
        self._oldest = self._more = None
        return waiting

    def _add_exchange(self) -> _Exchange:
        self._count += 1
        exchange = _Exchange(self._count)
        if self._oldest is None:
            self._oldest = exchange
        else:
            self._more = self._more or deque()
            self._more.append(exchange)
        return exchange


class _Requests(ConnectionSide):
    """Parses what the client sends.

    After a request that may end HTTP on the connection, only its answer shows whether the next bytes are
    HTTP. They are held until the answer, up to the length of a head.
    """

    __slots__ = ("_ending", "_exchanges", "_last")

    def __init__(self, pieces: list[Piece], exchanges: _Exchanges) -> None:
        super().__init__("client", pieces)
        self._exchanges = exchanges
        self._last: _Exchange | None = None
        # The arguments of ``end``, if the end has to wait until the held bytes are parsed.
        self._ending: tuple[Side, str, bool] | None = None

    @property
    def _paused(self) -> bool:
        """Whether the last request may end HTTP and has no answer yet."""
        return self._last is not None and self._last.switches and not self._last.answered

    def refusal(self, first: bytes) -> str:
        return "" if TOKEN_BYTE.match(first) else "this is not an HTTP request"

    def take_head(self, data: bytes, start: int) -> int:
        if not self._paused:
            return super().take_head(data, start)
        self.hold(data[start:])
        return len(data)

    def read_head(self, raw: bytes) -> None:
        head = request_head(raw)
        if isinstance(head, str):
            self.break_off(head, raw)
            return
        method, target, version, headers, framing = head
        self._last = exchange = self._exchanges.add_request(
            method, method == "CONNECT" or "upgrade" in framing
        )
        self.exchange = exchange.number
        self.pieces.append(
            RequestStart(exchange.number, method, target, version, headers=headers, raw=raw, at_ns=self.at_ns)
        )
        self.begin_body(request_body(framing))

    def end(self, by: Side, how: str, reset: bool, at_ns: int) -> None:
        if self._paused and self.held:
            self._ending = (by, how, reset)
        else:
            super().end(by, how, reset, at_ns)

    def resume(self) -> None:
        """Parse the bytes that were held: the request is answered, and the connection is still HTTP."""
        data = bytes(self.held)
        self.held = bytearray()
        self.feed(data, self.at_ns)
        if self._ending is not None:
            super().end(*self._ending, self.at_ns)


class _Responses(ConnectionSide):
    """Parses what the server sends, or the proxy in its place."""

    __slots__ = ("_exchanges", "_requests", "_switch")

    def __init__(
        self,
        by: Side,
        pieces: list[Piece],
        exchanges: _Exchanges,
        requests: _Requests,
        switch: Callable[[Side, int], None],
    ) -> None:
        super().__init__(by, pieces)
        self._exchanges = exchanges
        self._requests = requests
        self._switch = switch

    def refusal(self, first: bytes) -> str:
        if self._exchanges.oldest(self._requests) is None:
            return "nothing was asked"
        return "" if b"HTTP/".startswith(first) else "this is not an HTTP response"

    def read_head(self, raw: bytes) -> None:
        head = response_head(raw)
        exchange = self._exchanges.oldest(self._requests)
        if isinstance(head, str) or exchange is None:
            self.break_off(head if isinstance(head, str) else "nothing was asked", raw)
            return
        status, reason, version, headers, framing = head
        self.exchange = number = exchange.number
        self.pieces.append(
            ResponseStart(
                number, status, reason, version, headers=headers, raw=raw, at_ns=self.at_ns, by=self.of
            )
        )
        if status < 200 and status != 101:
            return
        exchange.answered = True
        self._exchanges.remove_oldest()
        if status == 101 or (exchange.method == "CONNECT" and status < 300):
            self.pieces.append(BodyEnd(number, self.of, self.at_ns, ()))
            self._switch(self.of, self.at_ns)
            return
        self.begin_body(response_body(exchange.method, status, framing))
        if exchange.switches:
            self._requests.resume()
