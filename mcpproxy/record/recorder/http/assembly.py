"""Turn the journal of HTTP connections (the relay's copy of the traffic) into events.

An ``Http1Connection`` parses the bytes of each connection into pieces; the pieces become heads, frames
(bodies or events of a stream) and ends of exchanges (requests with their responses). Heads and frames get a
number, to which findings (violations of rules) refer, in the order in which they are complete. Exchanges are
numbered over all connections. Credentials are masked here, unless the user wants to keep them: neither the
trace nor the judge sees them."""

import re
from collections.abc import Iterator
from dataclasses import replace
from hashlib import blake2b
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from mcpproxy.judge.session.frame import (
    CLIENT,
    SERVER,
    ExchangeEnd,
    Frame,
    Note,
    Opaque,
    RequestHead,
    ResponseHead,
    Sender,
)
from mcpproxy.record.framing.http1 import (
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
from mcpproxy.record.recorder.http.body_frames import EventBody, WholeBody
from mcpproxy.record.recorder.http.connections import Connection, OpenExchange
from mcpproxy.record.recorder.http.contents import ContentOwner, Contents, open_contents, sender_of
from mcpproxy.record.recorder.http.faulted import GIVEN, SENT_KIND, given_events, held_end, sent_events
from mcpproxy.record.recorder.http.head_reader import HeadReader, MaskedHead
from mcpproxy.record.recorder.http.memory_budget import HELD_BYTES, Budget
from mcpproxy.record.recorder.masking import Masker
from mcpproxy.record.recorder.payloads import faulted_of, note_of, object_of, salt_of
from mcpproxy.record.relay import journal
from mcpproxy.record.trace.members import list_member, member, optional_member
from mcpproxy.record.trace.records import EVERYTHING, Encoded, Recorded

if TYPE_CHECKING:
    from mcpproxy.record.recorder.model.bodies import ModelBodies

OPAQUE_BYTES: Final = 1 << 20
"""Bytes that are not HTTP are only counted. A record with the count is written when the first come, after
each further ``OPAQUE_BYTES``, and at the end."""

_RECHECK_BYTES: Final = 2 << 20
"""How many bytes of content may come before the amount of held content is checked again."""

_CONNECTION_COST: Final = 4 << 10
"""About how many bytes an open connection takes in a checkpoint."""

_EXCHANGE_COST: Final = 4 << 10
"""About how many bytes of memory an open exchange takes, including the judge's memory for it."""

_TOO_MUCH_HELD: Final = f"incomplete heads and open requests take more than {HELD_BYTES >> 20} MiB"

_REQUEST_LINE: Final = re.compile(rb"[A-Z]+ [^ \r\n]+ HTTP/1\.[01]\r?\n")

_FEED: Final = {
    journal.CLIENT: Http1Connection.client,
    journal.SERVER: Http1Connection.server,
    journal.OWN: Http1Connection.proxy,
}
"""The kind of a record with bytes -> the method that parses the bytes."""


class HttpAssembly:
    """Turns the journal's records about all connections of one recording into events.

    ``take`` accepts the records one by one and returns the events that each record completes. ``start`` is
    the payload of the START record, the first of the journal. A payload that is not valid raises
    ``NotARecordError``."""

    TRANSIENT = ("_mask", "_heads", "_contents", "_bodies")
    """Attributes that are not saved in a checkpoint, from which recording continues after a kill."""

    def __init__(self, start: bytes) -> None:
        members = object_of(start)
        self._endpoint: str = member(members, "endpoint", str, "/mcp")
        self._is_forward: bool = members.get("mode") == "forward"
        self._keep: bool = bool(members.get("keep_credentials"))
        # The salt is the key of the masks. A START record of an old relay has none; then its hash is used.
        self._salt = salt_of(members) or blake2b(start, digest_size=32).digest()
        self._secret_fields = tuple(list_member(members, "secret_fields", str))
        # Only with ``mcpproxy model``; see ``Header``.
        self._model: str = optional_member(members, "model", str) or ""
        self._kept: str = optional_member(members, "kept", str) or ""
        self._connections: dict[int, Connection] = {}
        self._learned: dict[str, None] = {}  # session ids from URLs
        self._budget = Budget()
        self._exchange = 0  # the number of the last exchange
        self._had_gap = False  # bytes are missing from the journal
        self.at_ns = 0
        """The time of the last record that ``take`` accepted, in nanoseconds."""
        self.seq = 0
        """The number of the last head or frame."""
        self.begin()

    def begin(self) -> None:
        """Make the attributes that are not in a checkpoint."""
        self._mask = Masker(
            self._salt, keep=self._keep, learned=self._learned, secret_fields=self._secret_fields
        )
        self._bodies = self._new_bodies()
        self._heads = HeadReader(
            self._mask, self._endpoint, is_forward=self._is_forward, learns_keys=bool(self._model)
        )
        self._contents = Contents(self._mask, self._budget, self._count_held, self._next_seq, self._bodies)
        for connection in self._connections.values():
            for exchange in connection.exchanges.values():
                for side in (exchange.client, exchange.server):
                    for data, _ in side.kept or ():
                        side.feed_again(data)

    def _new_bodies(self) -> "ModelBodies | None":
        if not self._model:
            return None
        from mcpproxy.record.recorder.model.bodies import ModelBodies  # only ``mcpproxy model`` needs it

        return ModelBodies(self._mask, self._model, hides=self._kept != EVERYTHING)

    @property
    def held_bytes(self) -> int:
        """About how many bytes a checkpoint would take."""
        connections = self._connections.values()
        return self._count_held() + sum(
            _CONNECTION_COST + connection.http.held_bytes for connection in connections
        )

    def take(self, kind: int, payload: bytes, at_ns: int, number: int) -> Iterator[Recorded]:
        """Return a lazy iterator over the events that one record of the journal completes.

        ``number`` is that of the record's connection, 0 if the record belongs to none.

        The caller must exhaust the iterator before it takes the next record.
        """
        self.at_ns = at_ns
        if kind not in _FEED:
            return self._take_connection_record(kind, payload, at_ns, number)
        self._budget.count_passed(len(payload))
        self._contents.grown += len(payload)
        connection = self._connection_of(number)
        if connection.is_lost and not self._resume_at_request(connection, kind, payload):
            side: Side = CLIENT if kind == journal.CLIENT else SERVER
            events = self._count_opaque(connection, side, len(payload), "", at_ns)
        else:
            events = self._read_pieces(connection, _FEED[kind](connection.http, payload, at_ns))
        return events if self._contents.grown < _RECHECK_BYTES else self._with_spills(events, at_ns)

    def _take_faulted(self, kind: int, payload: bytes, at_ns: int, number: int) -> Iterator[Recorded]:
        """Yield the events of a message that met a fault, or of bytes that were given in its place.

        A fault is a change of the traffic that the user asked for, for example with ``--fault``.
        """
        fault, content, members = faulted_of(payload)
        has_more = bool(members.get("more"))  # more is to be given in place of the message
        connection = self._connection_of(number)
        if kind in SENT_KIND:
            events = self.take(SENT_KIND[kind], content, at_ns, number)
            yield from sent_events(events, connection, fault, has_more=has_more)
            return
        part, heads = optional_member(members, "part", str) or "", self._heads
        yield from given_events(GIVEN[kind], part, content, at_ns, connection, fault, heads, self._next_seq)
        if not has_more:
            yield from held_end(connection)

    def _next_seq(self) -> int:
        self.seq += 1
        return self.seq

    def _count_held(self) -> int:
        """Return how many bytes of incomplete heads, contents and exchanges are held."""
        return sum(size for size, _ in self._holders())

    def _holders(self) -> list[tuple[int, ContentOwner | Connection]]:
        """Return every holder with its number of held bytes.

        A content holds its bytes; a connection holds incomplete heads and its open exchanges.
        """
        contents: list[tuple[int, ContentOwner | Connection]] = [
            ((owner.side.kept_bytes if owner.side.kept is not None else 0) + body.held_bytes, owner)
            for connection in self._connections.values()
            for owner, body in open_contents(connection)
        ]
        # The first exchange of a connection is not counted: the number of connections is limited elsewhere.
        return contents + [
            (connection.http.held_bytes + _EXCHANGE_COST * (len(connection.exchanges) - 1), connection)
            for connection in self._connections.values()
            if connection.exchanges
        ]

    def _with_spills(self, events: Iterator[Recorded], at_ns: int) -> Iterator[Recorded]:
        """Yield ``events``, then record the longest held contents in pieces, until at most ``HELD_BYTES`` are
        held.

        A connection whose heads and exchanges hold the most is not parsed any further.
        """
        yield from events
        self._contents.grown = 0
        holding = sorted(self._holders(), key=itemgetter(0))
        held = sum(size for size, _ in holding)
        while held > HELD_BYTES:
            size, holder = holding.pop()
            held -= size
            if isinstance(holder, Connection):
                yield from self._stop_following(holder, at_ns)
                continue
            yield from self._contents.spill(holder, at_ns)

    def _stop_following(self, connection: Connection, at_ns: int) -> Iterator[Recorded]:
        """Parse a connection no further: its exchanges are cut, and its later bytes are only counted."""
        yield Note(connection.number, "not-judged", _TOO_MUCH_HELD, at_ns)
        connection.reasons = dict.fromkeys(("client", "server", "proxy"), _TOO_MUCH_HELD)
        yield from self._read_pieces(connection, connection.http.opaque(at_ns, _TOO_MUCH_HELD))

    def _take_connection_record(
        self, kind: int, payload: bytes, at_ns: int, number: int
    ) -> Iterator[Recorded]:
        """Yield the events of a record that says what happened to a connection, or that is about a fault."""
        if kind == journal.CONNECT:
            peers = object_of(payload)
            self._connections[number] = Connection(number)
            client, upstream = member(peers, "client", str), member(peers, "upstream", str)
            yield Note(number, "connected", f"{client} to {upstream}", at_ns)
        elif kind in (journal.CLIENT_EOF, journal.SERVER_EOF):
            yield from self._take_eof(self._connection_of(number), kind, payload, at_ns)
        elif kind == journal.NOTE:
            note = note_of(payload, at_ns)
            yield replace(note, connection=number, why=self._mask.url(note.why))
        elif kind == journal.OPAQUE:
            connection = self._connection_of(number)
            yield from self._read_pieces(connection, connection.http.opaque(at_ns))
        elif kind in SENT_KIND or kind in GIVEN:
            yield from self._take_faulted(kind, payload, at_ns, number)

    def gap(self, at_ns: int) -> Iterator[Recorded]:
        """Cut all open exchanges at a gap, because it is unknown on which connection bytes are missing."""
        self._had_gap = True
        for connection in self._connections.values():
            yield from self._end_contents(connection, None)
            yield from self._cut_exchanges(connection, "proxy", at_ns)
            connection.is_lost = True

    def end(self) -> Iterator[Recorded]:
        """At the end of the journal, yield held parts of messages and counts of bytes that are not HTTP."""
        for connection in self._connections.values():
            yield from self._end_contents(connection, None)
            yield from self._report_opaque(connection, self.at_ns)

    def feed_again(self, record: Encoded) -> None:
        """Feed a decoder the encoded bytes of a trace record, which it had read before the checkpoint."""
        for connection in self._connections.values():
            for exchange in connection.exchanges.values():
                side = exchange.side(record.sender)
                if exchange.number == record.exchange and side.body is not None:
                    side.feed_again(record.data)

    # Connections

    def _connection_of(self, number: int) -> Connection:
        connection = self._connections.get(number)
        if connection is None:  # its CONNECT record is lost in a gap
            connection = self._connections[number] = Connection(number, is_lost=self._had_gap)
        return connection

    def _resume_at_request(self, connection: Connection, kind: int, payload: bytes) -> bool:
        """If ``payload`` begins with a request, resume parsing a connection that lacks bytes after a gap.

        Clients wait for the answer before the next request, so nothing of an earlier exchange follows.

        Returns:
            Whether parsing was resumed.
        """
        if kind != journal.CLIENT or not _REQUEST_LINE.match(payload):
            return False
        connection.http = Http1Connection()
        connection.is_lost = False
        return True

    def _take_eof(self, connection: Connection, kind: int, payload: bytes, at_ns: int) -> Iterator[Recorded]:
        """Yield the events of an EOF record. When both sides have ended, the connection is over."""
        side: Sender = CLIENT if kind == journal.CLIENT_EOF else SERVER
        if side in connection.ended:
            return
        if not connection.ended:
            connection.first = "proxy" if payload == journal.DROPPED else side
            connection.left_ns = at_ns if connection.first == CLIENT else None
        http = connection.http
        # If the proxy closed the connection, the peer may have had more to send, as after a reset.
        was_reset = payload != b""
        pieces = http.client_eof(at_ns, was_reset) if side == CLIENT else http.server_eof(at_ns, was_reset)
        connection.ended += (side,)
        closed_by_proxy = connection.ended[0] if connection.first == "proxy" else ""
        yield from self._read_pieces(
            connection, [_attribute_to_proxy(piece, closed_by_proxy) for piece in pieces]
        )
        if len(connection.ended) < 2:
            return
        yield from self._end_contents(connection, at_ns)
        yield from held_end(connection)
        yield from self._cut_exchanges(connection, connection.first or "proxy", at_ns)
        yield from self._report_opaque(connection, at_ns)
        who = "mcpproxy" if connection.first == "proxy" else f"the {connection.first}"
        yield Note(connection.number, "closed", f"{who} ended it first", at_ns)
        del self._connections[connection.number]

    def _cut_exchanges(self, connection: Connection, by: Side, at_ns: int) -> Iterator[Recorded]:
        """Yield the ends of the open exchanges of a connection, and forget them."""
        for exchange in connection.exchanges.values():
            yield ExchangeEnd(exchange.number, connection.number, True, by, at_ns, connection.left_ns)
        self._budget.spent -= sum(exchange.cost for exchange in connection.exchanges.values())
        connection.exchanges.clear()

    def _end_contents(self, connection: Connection, at_ns: int | None) -> Iterator[Recorded]:
        """Yield the held parts of messages that will never be complete.

        If ``at_ns`` is ``None``, each part gets the time of its last bytes.
        """
        for owner, _ in open_contents(connection):
            for event in self._contents.end(owner, at_ns, is_whole=False):
                if type(event) is Frame:
                    event.continues = True  # the frame is incomplete, so it must not be judged
                yield event

    # Pieces

    def _read_pieces(self, connection: Connection, pieces: list[Piece]) -> Iterator[Recorded]:
        """Yield the events that the pieces of a connection complete."""
        # The hot loop: all traffic passes here. Comparing types is faster than isinstance or match.
        for piece in pieces:
            if type(piece) is BodyPart:
                exchange = connection.exchanges[piece.exchange]
                owner = ContentOwner(connection, exchange, exchange.side(piece.of), piece.of)
                yield from self._contents.feed(owner, piece.data, piece.at_ns)
            elif type(piece) is BodyEnd:
                yield from self._end_side(connection, piece.exchange, piece.of, piece.at_ns, None)
            elif type(piece) is RequestStart:
                yield self._begin_request(connection, piece)
            elif type(piece) is ResponseStart:
                yield self._begin_response(connection, piece)
            elif type(piece) is Cut:
                yield from self._end_side(connection, piece.exchange, piece.of, piece.at_ns, piece.by)
            elif type(piece) is Broken:
                yield Note(connection.number, "not-http", f"the {piece.of}: {piece.why}", piece.at_ns)
                yield from self._count_opaque(connection, piece.of, len(piece.data), piece.why, piece.at_ns)
            elif type(piece) is OpaqueBytes:
                yield from self._count_opaque(connection, piece.of, len(piece.data), "", piece.at_ns)

    def _exchange_of(self, connection: Connection, number_on_connection: int) -> OpenExchange:
        """Return an open exchange; if it is new, give it the next number of the recording."""
        exchange = connection.exchanges.get(number_on_connection)
        if exchange is None:
            self._exchange += 1
            self._contents.grown += _EXCHANGE_COST
            exchange = connection.exchanges[number_on_connection] = OpenExchange(self._exchange)
        return exchange

    def _begin_request(self, connection: Connection, start: RequestStart) -> RequestHead:
        exchange = self._exchange_of(connection, start.exchange)
        head = self._heads.read(start, connection.ids)
        connection.learn(head.ids)
        exchange.endpoint = head.endpoint
        if self._bodies is not None:
            exchange.asked = f"{start.method} {head.target.partition('?')[0]}"
        exchange.client.begin(WholeBody(CLIENT), head.coding, is_masked=self._is_masked(exchange, head))
        return head.of_request(start, self._next_seq(), exchange.number, connection.number)

    def _begin_response(self, connection: Connection, start: ResponseStart) -> ResponseHead:
        exchange = self._exchange_of(connection, start.exchange)
        head = self._heads.read(start, connection.ids)
        connection.learn(head.ids)
        if start.status >= 200:
            body = EventBody(SERVER) if head.streams else WholeBody(SERVER)
            exchange.server.begin(body, head.coding, is_masked=self._is_masked(exchange, head))
        return head.of_response(start, self._next_seq(), exchange.number, connection.number)

    def _is_masked(self, exchange: OpenExchange, head: MaskedHead) -> bool:
        """Whether credentials in the body that follows a head have to be masked."""
        if self._bodies is not None:  # ``ModelBodies`` also masks the texts of prompts
            return True
        if self._keep:
            return False
        # In forward mode, where each request names its server, the endpoint is a guess. So its bodies are
        # masked too, except event streams.
        # ``Masker.body`` leaves JSON-RPC messages unchanged.
        return not exchange.endpoint or (self._is_forward and not head.streams)

    def _end_side(
        self, connection: Connection, number_on_connection: int, of: Side, at_ns: int, cut_by: Side | None
    ) -> Iterator[Recorded]:
        """Yield the events at the end of one side of an exchange; ``cut_by`` is who cut it, if it was cut."""
        exchange = self._exchange_of(connection, number_on_connection)
        side = exchange.side(of)
        if side.body is not None:
            owner = ContentOwner(connection, exchange, side, of)
            yield from self._contents.end(owner, at_ns, is_whole=not cut_by)
        side.is_over = True
        exchange.cut_by = exchange.cut_by or cut_by or ""
        if exchange.is_over:
            self._budget.spent -= exchange.cost
            del connection.exchanges[number_on_connection]
            by = exchange.cut_by or None
            yield ExchangeEnd(exchange.number, connection.number, bool(by), by, at_ns, connection.left_ns)

    # Bytes that are not HTTP

    def _count_opaque(
        self, connection: Connection, of: Side, size: int, why: str, at_ns: int
    ) -> Iterator[Recorded]:
        """Count ``size`` bytes that are not HTTP, and yield a record of the counts if one is due."""
        if why:
            connection.reasons = {**(connection.reasons or {}), of: why}
        opaque = connection.opaque = connection.opaque or {}
        total = opaque[of] = opaque.get(of, 0) + size
        if not connection.has_told_opaque or total >= OPAQUE_BYTES:
            connection.has_told_opaque = True
            yield from self._report_opaque(connection, at_ns)

    def _report_opaque(self, connection: Connection, at_ns: int) -> Iterator[Recorded]:
        """Yield, for each side that has sent bytes that are not HTTP, an event with their number."""
        usual = "something before it was not recorded" if connection.is_lost else "it is not HTTP any more"
        opaque, connection.opaque = connection.opaque or {}, None
        for of, size in opaque.items():
            if size:
                why = (connection.reasons or {}).get(of, usual)
                yield Opaque(connection.number, sender_of(of), size, why, at_ns, of == "proxy")


def _attribute_to_proxy(piece: Piece, closed_by_proxy: str) -> Piece:
    """Return ``piece``. A cut by the side that the proxy closed is attributed to the proxy."""
    return piece._replace(by="proxy") if isinstance(piece, Cut) and piece.by == closed_by_proxy else piece
