"""From the journal of connections to events: the assembly of a recording over HTTP.

Each connection is taken apart by an ``Http1Connection``; what it finds becomes heads, frames and ends. All
that can be blamed (heads and frames) is numbered by one counter, in the order of its completion; exchanges
are counted over all connections. Credentials are masked here: neither the trace nor the judge sees them.

A body that is compressed is filed twice: as ``Encoded`` records, the bytes that passed, and as the frames
that they stand for. Where masking changes what they stand for, the encoded bytes are left out. A note says of
each body that it was masked.
"""

import json
import re
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any, Final, cast

from mcpproxy.framing.http1 import (
    BodyEnd,
    BodyPart,
    Broken,
    Cut,
    Http1Connection,
    OpaqueBytes,
    Piece,
    RequestStart,
    ResponseStart,
    Side,
)
from mcpproxy.recorder.bodies import BODY_BYTES, Coded, EventBody, WholeBody, coding_of, in_pieces
from mcpproxy.recorder.connections import Connection, Exchange, Half
from mcpproxy.recorder.cost import Budget
from mcpproxy.recorder.masking import Masker
from mcpproxy.relay import journal
from mcpproxy.session.frame import (
    CLIENT,
    SERVER,
    ExchangeEnd,
    Frame,
    Note,
    Opaque,
    RequestHead,
    ResponseHead,
    Sender,
    SseEvent,
)
from mcpproxy.session.http import SESSION, Fields
from mcpproxy.trace.format import Recorded
from mcpproxy.trace.http import Encoded

OPAQUE_BYTES: Final = 1 << 20
"""Bytes that are no HTTP are told when this many have passed, and at the end."""

_CONNECTION_COST: Final = 4 << 10
"""About what an open connection takes in a checkpoint."""

_REQUEST_LINE: Final = re.compile(rb"[A-Z]+ [^ \r\n]+ HTTP/1\.[01]\r?\n")
_BYTES: Final = (journal.CLIENT, journal.SERVER, journal.OWN)


class HttpAssembly:
    """All connections of one recording.

    ``take`` is given the records of the journal, one after another, and gives the events that are complete
    with each. ``start`` is what the START record says, as JSON.
    """

    TRANSIENT = ("_mask",)

    def __init__(self, start: bytes) -> None:
        members = cast("dict[str, Any]", json.loads(start))
        self._endpoint: str = members.get("endpoint", "/mcp")
        self._is_forward: bool = members.get("mode") == "forward"
        self._keep: bool = members.get("keep_credentials", False)
        # An old relay gives no salt; what it tells then is the best there is.
        salt: str = members.get("salt", "")
        self._salt = bytes.fromhex(salt) if salt else blake2b(start, digest_size=32).digest()
        self._connections: dict[int, Connection] = {}
        self._learned: dict[str, None] = {}  # session ids out of URLs
        self._budget = Budget()
        self._exchange = 0
        self._had_gap = False
        self.at_ns = 0
        """The time of the last record that was taken."""
        self.seq = 0
        """The number of the last head or frame."""
        self.begin()

    def begin(self) -> None:
        """Make what is not in a checkpoint."""
        self._mask = Masker(self._salt, keep=self._keep, learned=self._learned)
        for connection in self._connections.values():
            for exchange in connection.exchanges.values():
                for half, _ in exchange.halves:
                    for data, _ in half.kept:
                        _show(half.coded, data)

    @property
    def held_bytes(self) -> int:
        """About how much a checkpoint would hold."""
        total = 0
        for connection in self._connections.values():
            total += _CONNECTION_COST
            for exchange in connection.exchanges.values():
                for half in (exchange.client, exchange.server):
                    total += half.kept_bytes + (half.body.held_bytes if half.body else 0)
        return total

    @property
    def open_exchanges(self) -> int:
        """How many exchanges are under way."""
        return sum(len(connection.exchanges) for connection in self._connections.values())

    @property
    def open_streams(self) -> int:
        """How many of them are event streams by now."""
        return sum(
            isinstance(exchange.server.body, EventBody)
            for connection in self._connections.values()
            for exchange in connection.exchanges.values()
        )

    def take(self, kind: int, payload: bytes, at_ns: int, number: int) -> Iterator[Recorded]:
        """What a record of the journal brings to light, bit by bit, as it is asked for.

        All of it is to be asked for before the next record is taken.
        """
        self.at_ns = at_ns
        if kind in _BYTES:
            connection = self._connection(number)
            if connection.is_lost and not self._is_found(connection, kind, payload):
                side: Side = "client" if kind == journal.CLIENT else "server"
                yield from self._opaque(connection, side, len(payload), "", at_ns)
                return
            http = connection.http
            if kind == journal.CLIENT:
                pieces = http.client(payload, at_ns)
            elif kind == journal.SERVER:
                pieces = http.server(payload, at_ns)
            else:
                pieces = http.proxy(payload, at_ns)
            yield from self._read(connection, pieces)
        elif kind == journal.CONNECT:
            peers = cast("dict[str, Any]", json.loads(payload))
            self._connections[number] = Connection(number)
            yield Note(number, "connected", f"{peers['client']} to {peers['upstream']}", at_ns)
        elif kind in (journal.CLIENT_EOF, journal.SERVER_EOF):
            yield from self._ended(self._connection(number), kind, payload, at_ns)
        elif kind == journal.NOTE:
            note = cast("dict[str, Any]", json.loads(payload))
            yield Note(number, note["what"], self._mask.url(note["why"]), at_ns)
        elif kind == journal.OPAQUE:
            connection = self._connection(number)
            yield from self._read(connection, connection.http.opaque(at_ns))

    def gap(self, at_ns: int) -> list[Recorded]:
        """Bytes of nobody knows which connection are missing: what was under way is not followed further."""
        found: list[Recorded] = []
        self._had_gap = True
        for connection in self._connections.values():
            found += self._abandoned(connection, None)
            found += [
                ExchangeEnd(exchange.number, connection.number, True, "proxy", at_ns)
                for exchange in connection.exchanges.values()
            ]
            self._forget(connection)
            connection.is_lost = True
        return found

    def end(self) -> list[Recorded]:
        """The journal is over. What is under way did not end; it is not followed any further."""
        found: list[Recorded] = []
        for connection in self._connections.values():
            found += self._abandoned(connection, None)
            found += self._tell_opaque(connection, self.at_ns)
        return found

    def refeed(self, record: Encoded) -> None:
        """After a checkpoint: encoded bytes that the trace holds, for the decoder that had read them."""
        for connection in self._connections.values():
            for exchange in connection.exchanges.values():
                half = exchange.client if record.sender == CLIENT else exchange.server
                if exchange.number == record.exchange and half.body is not None:
                    _show(half.coded, record.data)

    # Connections

    def _connection(self, number: int) -> Connection:
        connection = self._connections.get(number)
        if connection is None:  # its CONNECT is in a gap
            connection = self._connections[number] = Connection(number, is_lost=self._had_gap)
        return connection

    def _is_found(self, connection: Connection, kind: int, payload: bytes) -> bool:
        """Whether a request begins here, on a connection of which something is missing.

        Clients await the answer before they ask again, so what comes next belongs together.
        """
        if kind != journal.CLIENT or not _REQUEST_LINE.match(payload):
            return False
        connection.http = Http1Connection()
        connection.is_lost = False
        return True

    def _ended(self, connection: Connection, kind: int, payload: bytes, at_ns: int) -> Iterator[Recorded]:
        side: Sender = CLIENT if kind == journal.CLIENT_EOF else SERVER
        if side in connection.ended:
            return
        if not connection.ended:
            connection.first = "proxy" if payload == journal.DROPPED else side
        http = connection.http
        # We let go of a peer that may have had more to say: to the framing that is a reset.
        pieces = (http.client_eof if side == CLIENT else http.server_eof)(at_ns, payload != b"")
        connection.ended.append(side)
        by_us = connection.ended[0] if connection.first == "proxy" else ""
        yield from self._read(connection, [_by_proxy(piece, by_us) for piece in pieces])
        if len(connection.ended) < 2:
            return
        yield from self._abandoned(connection, at_ns)
        for exchange in connection.exchanges.values():
            yield ExchangeEnd(exchange.number, connection.number, True, _blame(connection.first), at_ns)
        yield from self._tell_opaque(connection, at_ns)
        who = "mcpproxy" if connection.first == "proxy" else f"the {connection.first}"
        yield Note(connection.number, "closed", f"{who} ended it first", at_ns)
        self._forget(connection)
        del self._connections[connection.number]

    def _forget(self, connection: Connection) -> None:
        """What was under way on a connection is not any more."""
        self._budget.spent -= sum(exchange.cost for exchange in connection.exchanges.values())
        connection.exchanges.clear()

    def _abandoned(self, connection: Connection, at_ns: int | None) -> Iterator[Recorded]:
        """What is held of messages that will not be seen whole."""
        for exchange in connection.exchanges.values():
            for half, of in exchange.halves:
                if not half.is_over and half.body is not None:
                    for frame in self._rest(connection, exchange, half, of, at_ns, is_whole=False):
                        if isinstance(frame, Frame):
                            frame.continues = True
                        yield frame

    # Pieces

    def _read(self, connection: Connection, pieces: list[Piece]) -> Iterator[Recorded]:
        for piece in pieces:
            match piece:
                case BodyPart(local, of, data, at_ns):
                    exchange = connection.exchanges[local]
                    half = exchange.client if of == CLIENT else exchange.server
                    yield from self._content(connection, exchange, half, of, data, at_ns)
                case BodyEnd(local, of, at_ns):
                    yield from self._over(connection, local, of, at_ns, "")
                case Cut(local, of, by, at_ns):
                    yield from self._over(connection, local, of, at_ns, by)
                case RequestStart():
                    yield self._request(connection, piece)
                case ResponseStart():
                    yield self._response(connection, piece)
                case Broken(of, why, data, at_ns):
                    yield Note(connection.number, "not-http", f"the {of}: {why}", at_ns)
                    yield from self._opaque(connection, of, len(data), why, at_ns)
                case OpaqueBytes(of, data, at_ns):
                    yield from self._opaque(connection, of, len(data), "", at_ns)

    def _exchange_of(self, connection: Connection, local: int) -> Exchange:
        exchange = connection.exchanges.get(local)
        if exchange is None:
            self._exchange += 1
            exchange = connection.exchanges[local] = Exchange(self._exchange)
        return exchange

    def _request(self, connection: Connection, start: RequestStart) -> RequestHead:
        exchange = self._exchange_of(connection, start.exchange)
        fields = Fields(start.headers)
        connection.learn(fields.all(SESSION))
        connection.learn(self._mask.ids_in(start.target, known=True))
        exchange.endpoint = self._is_endpoint(start, fields)
        exchange.client = self._half(exchange, CLIENT, fields)
        return RequestHead(
            self._next(),
            exchange.number,
            connection.number,
            start.method,
            self._mask.url(start.target),
            self._mask.headers(start.headers, connection.ids),
            exchange.endpoint,
            start.version,
            start.at_ns,
        )

    def _response(self, connection: Connection, start: ResponseStart) -> ResponseHead:
        exchange = self._exchange_of(connection, start.exchange)
        fields = Fields(start.headers)
        connection.learn(fields.all(SESSION))
        if start.status >= 200:
            exchange.server = self._half(exchange, SERVER, fields)
        return ResponseHead(
            self._next(),
            exchange.number,
            connection.number,
            start.status,
            self._mask.headers(start.headers, connection.ids),
            start.reason,
            start.version,
            start.by == "proxy",
            start.at_ns,
        )

    def _is_endpoint(self, start: RequestStart, fields: Fields) -> bool:
        """Whether a request goes to the MCP endpoint.

        Behind a reverse proxy there is one path. In forward mode every server has its own; there it is also
        what asks for an event stream or names a session.
        """
        path = start.target.partition("?")[0]
        if not self._is_forward:
            return path == self._endpoint
        _, _, rest = path.partition("://")
        if "/" + rest.partition("/")[2] == self._endpoint:
            return True
        return "mcp-session-id" in fields or "text/event-stream" in (fields.get("accept") or "").lower()

    def _half(self, exchange: Exchange, sender: Sender, fields: Fields) -> Half:
        is_stream = sender == SERVER and fields.media_type == "text/event-stream"
        half = Half(EventBody(sender) if is_stream else WholeBody(sender))
        # In forward mode the endpoint is a guess: what turns out to be no JSON-RPC is masked there too.
        guessed = self._is_forward and not is_stream
        half.is_masked = not self._keep and (guessed or not exchange.endpoint)
        if coding := coding_of(", ".join(fields.all("content-encoding"))):
            half.coded = Coded(coding)
        return half

    # Content

    def _content(
        self, connection: Connection, exchange: Exchange, half: Half, of: Side, data: bytes, at_ns: int
    ) -> Iterator[Recorded]:
        coded = half.coded
        if coded is None:
            if half.body is not None:
                yield from self._framed(connection, exchange, half, of, half.body.feed(data, at_ns))
            return
        if half.body is None:
            if not half.is_masked and not half.is_told:
                yield Encoded(exchange.number, connection.number, _sender(of), data, at_ns)
            return
        frames = self._decoded(connection, exchange, half, coded, of, data, at_ns)
        if isinstance(half.body, EventBody):  # whether something is masked is known as soon as it is framed
            frames = list(frames)
            if not half.is_masked and not half.is_told:
                yield Encoded(exchange.number, connection.number, _sender(of), data, at_ns)
        else:
            yield from self._keep_back(connection, exchange, half, of, data, at_ns)
        yield from frames
        if coded.why:
            yield from self._unreadable(connection, exchange, half, of, data, at_ns)

    def _decoded(
        self,
        connection: Connection,
        exchange: Exchange,
        half: Half,
        coded: Coded,
        of: Side,
        data: bytes,
        at_ns: int,
    ) -> Iterator[Recorded]:
        for content in coded.feed(data):
            if half.body is not None:
                yield from self._framed(connection, exchange, half, of, half.body.feed(content, at_ns))

    def _keep_back(
        self, connection: Connection, exchange: Exchange, half: Half, of: Side, data: bytes, at_ns: int
    ) -> Iterator[Recorded]:
        """Keep encoded bytes until it is known whether something in them is masked.

        Of a body that is too long for that, those that may be credentials are left out, and those that may
        only repeat a session id are not.
        """
        if half.kept_bytes <= BODY_BYTES:
            half.kept.append((data, at_ns))
            half.kept_bytes += len(data)
            data = b""
        if half.kept_bytes > BODY_BYTES or not (half.is_masked or connection.ids):
            kept, half.kept = half.kept, []
            for held, when_ns in [*kept, *([(data, at_ns)] if data else ())]:
                if not half.is_masked:
                    yield Encoded(exchange.number, connection.number, _sender(of), held, when_ns)

    def _unreadable(
        self, connection: Connection, exchange: Exchange, half: Half, of: Side, data: bytes, at_ns: int
    ) -> Iterator[Recorded]:
        """A body cannot be decoded. A piece that goes on says so to the judge, who concludes nothing then."""
        half.body = None
        kept, half.kept = half.kept, []
        for held, when_ns in kept if not half.is_masked else ():
            yield Encoded(exchange.number, connection.number, _sender(of), held, when_ns)
        if half.coded is not None:
            yield Note(connection.number, "not-decoded", half.coded.why, at_ns)
        if half.is_masked:  # in what nobody can read, nothing can be masked
            yield Note(connection.number, "withheld", "the body may hold credentials", at_ns)
        else:
            piece = Frame(0, _sender(of), data, at_ns, terminated=False, continues=True)
            yield from self._framed(connection, exchange, half, of, [piece])

    def _over(
        self, connection: Connection, local: int, of: Side, at_ns: int, cut_by: str
    ) -> Iterator[Recorded]:
        exchange = self._exchange_of(connection, local)
        half = exchange.client if of == CLIENT else exchange.server
        yield from self._rest(connection, exchange, half, of, at_ns, is_whole=not cut_by)
        half.is_over = True
        exchange.cut_by = exchange.cut_by or cut_by
        if exchange.is_over:
            self._budget.spent -= exchange.cost
            del connection.exchanges[local]
            by = _blame(exchange.cut_by) if exchange.cut_by else None
            yield ExchangeEnd(exchange.number, connection.number, bool(by), by, at_ns)

    def _rest(
        self,
        connection: Connection,
        exchange: Exchange,
        half: Half,
        of: Side,
        at_ns: int | None,
        *,
        is_whole: bool,
    ) -> Iterator[Recorded]:
        body, half.body = half.body, None
        if body is None:
            return
        if half.coded is not None and is_whole:
            half.coded.end()
            if half.coded.why and at_ns is not None:
                yield Note(connection.number, "not-decoded", half.coded.why, at_ns)
                is_whole = False
        frames: Iterable[Frame] = body.end(at_ns, is_whole=is_whole)
        kept, half.kept = half.kept, []
        if kept and half.kept_bytes <= BODY_BYTES:
            frames = list(frames)
            if any(self._masked(connection, half, frame) != frame.raw for frame in frames):
                kept = []
            for data, when_ns in kept:
                yield Encoded(exchange.number, connection.number, _sender(of), data, when_ns)
        yield from self._framed(connection, exchange, half, of, frames)

    def _framed(
        self, connection: Connection, exchange: Exchange, half: Half, of: Side, frames: Iterable[Frame]
    ) -> Iterator[Recorded]:
        for whole in frames:
            if self._mask_frame(connection, half, whole) and not half.is_told:
                half.is_told = True
                yield Note(
                    connection.number, "masked", f"credentials in what the {of} sent", whole.observed_at_ns
                )
            for frame in self._affordable(exchange, half, whole):
                frame.seq, frame.exchange, frame.connection = self._next(), exchange.number, connection.number
                frame.by_proxy = of == "proxy"
                yield frame

    def _masked(self, connection: Connection, half: Half, frame: Frame) -> bytes:
        """The bytes of a frame, without what nobody is to read."""
        if frame.event is not None and frame.event.name == "endpoint":
            connection.learn(self._mask.ids_in(frame.raw.decode("latin-1")))
            return self._mask.endpoint(frame.raw)
        raw = self._mask.body(frame.raw) if half.is_masked else frame.raw
        return self._mask.ids(raw, connection.ids)

    def _mask_frame(self, connection: Connection, half: Half, frame: Frame) -> bool:
        """Mask a frame and the event around it; whether that changed anything."""
        masked, event = self._masked(connection, half, frame), frame.event
        is_changed = masked != frame.raw
        frame.raw = masked
        if event is None or not (is_changed or connection.ids):
            return is_changed
        before, after = event.before, event.after
        if is_changed and after is None:  # they repeat the frame's bytes
            before = b""
        around = SseEvent(
            self._mask.ids(before, connection.ids),
            None if after is None else self._mask.ids(after, connection.ids),
            None if event.id is None else self._mask.text(event.id, connection.ids),
            event.name,
            event.retry,
        )
        is_changed = is_changed or around != event
        if is_changed:
            frame.event = around
        return is_changed

    def _affordable(self, exchange: Exchange, half: Half, frame: Frame) -> Iterable[Frame]:
        """A frame, or its pieces where there is no memory to judge it."""
        if frame.continues or half.is_long:
            half.is_long = frame.continues
            return in_pieces(frame)
        cost = self._budget.cost(frame.raw)
        if cost is None:
            return in_pieces(frame, at_least=2)
        if frame.sender == CLIENT:
            exchange.cost += cost
            self._budget.spent += cost
        return (frame,)

    # What is no HTTP

    def _opaque(
        self, connection: Connection, of: Side, size: int, why: str, at_ns: int
    ) -> Iterator[Recorded]:
        if why:
            connection.reasons[of] = why
        total = connection.opaque[of] = connection.opaque.get(of, 0) + size
        if not connection.has_told_opaque or total >= OPAQUE_BYTES:
            connection.has_told_opaque = True
            yield from self._tell_opaque(connection, at_ns)

    def _tell_opaque(self, connection: Connection, at_ns: int) -> Iterator[Recorded]:
        usual = "something before it was not recorded" if connection.is_lost else "it is not HTTP any more"
        for of, size in connection.opaque.items():
            if size:
                yield Opaque(connection.number, _sender(of), size, connection.reasons.get(of, usual), at_ns)
        connection.opaque.clear()

    def _next(self) -> int:
        self.seq += 1
        return self.seq


def _show(coded: Coded | None, data: bytes) -> None:
    """Feed a decoder what it had read before."""
    for _ in coded.feed(data) if coded is not None else ():
        pass


def _by_proxy(piece: Piece, by_us: str) -> Piece:
    """A cut that the framing lays to the peer whom we let go first."""
    return piece._replace(by="proxy") if isinstance(piece, Cut) and piece.by == by_us else piece


def _sender(of: Side) -> Sender:
    return CLIENT if of == "client" else SERVER


def _blame(side: str) -> Side:
    return "client" if side == "client" else "server" if side == "server" else "proxy"
