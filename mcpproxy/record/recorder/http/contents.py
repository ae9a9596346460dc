"""Decode and mask the contents of HTTP messages, and split those that are too long, for the recording.

A compressed body is recorded twice: ``Encoded`` records hold the bytes that passed, and frames the decoded
content. Encoded bytes are left out if masking changes their frames. Those of an event stream, and of a body
that cannot be decoded or is too long to be kept, are left out whenever they may contain credentials. A note
says which bodies were masked."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from mcpproxy.judge.session.frame import (
    CLIENT,
    NOT_DECODED,
    SERVER,
    UNKNOWN_DIALECT,
    Frame,
    Note,
    Sender,
    SseEvent,
)
from mcpproxy.record.framing.http1 import Side
from mcpproxy.record.recorder.http.body_frames import BODY_BYTES, Body, ContentDecoder, EventBody, in_pieces
from mcpproxy.record.recorder.http.connections import Connection, ExchangeSide, OpenExchange
from mcpproxy.record.recorder.http.memory_budget import DECODED_RATIO, HELD_BYTES, Budget
from mcpproxy.record.recorder.masking import Masker
from mcpproxy.record.trace.records import Encoded, Recorded

if TYPE_CHECKING:
    from mcpproxy.record.recorder.model.bodies import ModelBodies

_RECORD_BYTES: Final = 160
"""About how many bytes the record of a frame takes besides its content."""

_SLICE_BYTES: Final = 16 << 10
"""How many bytes of a decoded event stream, with up to thousands of events, are split at a time."""

_TOO_MUCH_DECODED: Final = f"content not recorded: it decodes to more than {DECODED_RATIO} times what passed"
_TOO_MUCH_HELD: Final = f"incomplete messages take more than {HELD_BYTES >> 20} MiB: recorded in pieces"


class ContentOwner(NamedTuple):
    """Where a content belongs: a side of an exchange (a request with its response) on a connection. ``of`` is
    the content's sender."""

    connection: Connection
    exchange: OpenExchange
    side: ExchangeSide
    of: Side

    @property
    def sender(self) -> Sender:
        """The peer to whose side the content belongs."""
        return sender_of(self.of)

    def encoded(self, data: bytes, at_ns: int) -> Encoded:
        """Return the record of bytes that have a content coding."""
        return Encoded(self.exchange.number, self.connection.number, self.sender, data, at_ns)

    def note(self, what: str, why: str, at_ns: int) -> Note:
        """Return a note about the connection."""
        return Note(self.connection.number, what, why, at_ns)

    def not_decoded(self, why: str, at_ns: int) -> Note:
        """Return a note about this content, which could not be read."""
        exchange = self.exchange.number if self.sender == SERVER else 0
        return Note(self.connection.number, NOT_DECODED, why, at_ns, exchange)


def open_contents(connection: Connection) -> Iterator[tuple[ContentOwner, Body]]:
    """Yield each content of a connection that has not ended, with its body."""
    for exchange in connection.exchanges.values():
        for of in (CLIENT, SERVER):
            side = exchange.side(of)
            if side.body is not None:
                yield ContentOwner(connection, exchange, side, of), side.body


def sender_of(of: Side) -> Sender:
    """Return the peer that ``of`` stands for: the proxy answers in the server's place."""
    return CLIENT if of == CLIENT else SERVER


class Contents:
    """Turns the contents of all connections into frames.

    ``mask`` masks credentials, ``budget`` limits the memory for judging, ``held`` returns how many bytes of
    incomplete heads, bodies, events and exchanges are held, and ``next_seq`` the number of the next frame.
    ``bodies`` is given only for ``mcpproxy model``: it masks the bodies of requests to a model, and of their
    responses."""

    def __init__(
        self,
        mask: Masker,
        budget: Budget,
        held: Callable[[], int],
        next_seq: Callable[[], int],
        bodies: "ModelBodies | None" = None,
    ) -> None:
        self._mask = mask
        self._budget = budget
        self._held = held
        self._next_seq = next_seq
        self._bodies = bodies
        self.grown = 0
        """How many bytes came or were decoded since the amount of held content was last checked, including
        the cost of new exchanges."""

    def feed(self, owner: ContentOwner, data: bytes, at_ns: int) -> Iterable[Recorded]:
        """Return the events of the next bytes of a content (without its transfer coding).

        The caller must exhaust the result.
        """
        side = owner.side
        if side.decoder is not None:
            return self._feed_decoder(owner, side.decoder, data, at_ns)
        if side.body is None:
            return ()
        frames = side.body.feed(data, at_ns)
        return self._finish_frames(owner, frames) if frames else ()

    def spill(self, owner: ContentOwner, at_ns: int) -> Iterator[Recorded]:
        """Yield the held bytes of a content that has not ended, as a piece. The content is not judged."""
        side = owner.side
        if side.body is None:
            return
        if not side.is_long:
            yield owner.note("not-judged", _TOO_MUCH_HELD, at_ns)
        if side.decoder is not None and not isinstance(side.body, EventBody):
            # Treat the body as too long to be kept: later bytes are not kept either (see ``_keep_back``).
            side.kept_bytes = max(side.kept_bytes, BODY_BYTES + 1)
            yield from self._record_kept(owner)
        yield from self._finish_frames(owner, side.body.spill())

    def end(self, owner: ContentOwner, at_ns: int | None, *, is_whole: bool) -> Iterable[Recorded]:
        """End a content; ``is_whole`` is false if it was cut.

        If ``at_ns`` is ``None``, the last frame gets the time of the last part of the content.
        """
        side = owner.side
        body, side.body = side.body, None
        if body is None:
            return ()
        if side.decoder is not None:
            return self._end_decoder(owner, side.decoder, body, at_ns, is_whole)
        return self._finish_frames(owner, body.end(at_ns, is_whole=is_whole))

    def _end_decoder(
        self, owner: ContentOwner, decoder: ContentDecoder, body: Body, at_ns: int | None, is_whole: bool
    ) -> Iterator[Recorded]:
        side = owner.side
        if is_whole:
            decoder.end()
            if decoder.why and at_ns is not None:
                yield owner.not_decoded(decoder.why, at_ns)
                is_whole = False
        frames: Iterable[Frame] = body.end(at_ns, is_whole=is_whole)
        kept_parts, side.kept = side.kept, None
        if kept_parts and side.kept_bytes <= BODY_BYTES:
            frames = list(frames)
            if all(self._mask_bytes(owner, frame) == frame.raw for frame in frames):
                for data, when_ns in kept_parts:
                    yield owner.encoded(data, when_ns)
        yield from self._finish_frames(owner, frames)

    def _feed_decoder(
        self, owner: ContentOwner, decoder: ContentDecoder, data: bytes, at_ns: int
    ) -> Iterator[Recorded]:
        side = owner.side
        if side.body is None:  # earlier bytes could not be decoded (see ``_record_undecodable``)
            if not side.is_masked and not side.is_noted:
                yield owner.encoded(data, at_ns)
            return
        is_stream = isinstance(side.body, EventBody)
        if not is_stream:
            yield from self._keep_back(owner, data, at_ns)
        why = ""
        for part in self._affordable_parts(decoder.feed(data), is_stream):
            if not part:
                why = _TOO_MUCH_DECODED
                break
            self.grown += len(part)
            for event in self._finish_frames(owner, side.body.feed(part, at_ns)):
                self._budget.decoded_left -= _RECORD_BYTES
                yield event
        # Bytes that may contain credentials (``is_masked``) are not recorded, nor are any after masking has
        # changed an event (``is_noted``). By now it is known whether it has.
        if is_stream and not side.is_masked and not side.is_noted:
            yield owner.encoded(data, at_ns)
        if why := why or decoder.why:
            yield from self._record_undecodable(owner, why, data, at_ns)

    def _affordable_parts(self, contents: Iterable[bytes], is_stream: bool) -> Iterator[bytes]:
        """Yield decoded content in parts. An empty last part means that the rest is too large to record."""
        for content in contents:
            size = _SLICE_BYTES if is_stream else len(content)
            for start in range(0, len(content), size):
                part = content[start : start + size]
                self._budget.decoded_left -= len(part)
                if self._budget.decoded_left < 0:
                    yield b""
                    return
                yield part

    def _keep_back(self, owner: ContentOwner, data: bytes, at_ns: int) -> Iterator[Encoded]:
        """Keep encoded bytes until it is known whether masking changes their content.

        The encoded bytes of a body that is too long to be kept are recorded only if the body cannot contain
        credentials. Such a body may still repeat a session id, which is then recorded unmasked."""
        side = owner.side
        if side.kept_bytes <= BODY_BYTES:
            side.kept = side.kept or []
            side.kept.append((data, at_ns))
            side.kept_bytes += len(data)
        elif not side.is_masked:
            yield owner.encoded(data, at_ns)
        if side.kept_bytes > BODY_BYTES or not (side.is_masked or owner.connection.ids):
            yield from self._record_kept(owner)

    def _record_kept(self, owner: ContentOwner) -> Iterator[Encoded]:
        """Yield the bytes that were kept, unless they may contain credentials."""
        side = owner.side
        kept_parts, side.kept = side.kept, None
        if not side.is_masked:
            for data, at_ns in kept_parts or ():
                yield owner.encoded(data, at_ns)

    def _record_undecodable(
        self, owner: ContentOwner, why: str, data: bytes, at_ns: int
    ) -> Iterator[Recorded]:
        """Record bytes that cannot be decoded, as an incomplete frame, which is not judged; only a note if
        they may contain credentials."""
        owner.side.body = None
        yield from self._record_kept(owner)
        yield owner.not_decoded(why, at_ns)
        if owner.side.is_masked:  # without decoding, credentials cannot be masked
            yield owner.note("withheld", "the body may hold credentials", at_ns)
        else:
            piece = Frame(0, owner.sender, data, at_ns, terminated=False, continues=True)
            yield from self._finish_frames(owner, [piece])

    def _finish_frames(self, owner: ContentOwner, frames: Iterable[Frame]) -> Iterator[Recorded]:
        """Mask the frames of a content, number them, and yield them, with notes about the masking.

        With ``mcpproxy model``, a note also says that a request has no known dialect (the JSON format of a
        model's interface).
        """
        side, exchange, connection = owner.side, owner.exchange, owner.connection
        by_proxy = owner.of == "proxy"
        for frame in frames:
            if (
                self._bodies is not None
                and owner.of == CLIENT
                and self._bodies.is_unknown(exchange.asked, frame)
            ):
                why = f"{exchange.asked}: not a dialect that is read; its bodies are recorded"
                yield owner.note(UNKNOWN_DIALECT, why, frame.observed_at_ns)
            if self._mask_frame(owner, frame) and not side.is_noted:
                side.is_noted = True
                what = "credentials" if self._bodies is None else self._bodies.masks
                why = f"{what} in what the {owner.of} sent"
                yield owner.note("masked", why, frame.observed_at_ns)
            for part in self._split_unless_affordable(owner, frame):
                part.seq = self._next_seq()
                part.exchange, part.connection = exchange.number, connection.number
                part.by_proxy = by_proxy
                yield part

    def _split_unless_affordable(self, owner: ContentOwner, frame: Frame) -> Iterable[Frame]:
        """Return the frame. If it is itself a piece, or there is not enough memory to judge it, return its
        pieces."""
        side, exchange = owner.side, owner.exchange
        if frame.continues or side.is_long:
            side.is_long = frame.continues
            return in_pieces(frame)
        cost = self._budget.cost(frame.raw, self._held)
        if cost is None:
            return in_pieces(frame, at_least=2)
        if cost and frame.sender == CLIENT:
            exchange.cost += cost
            self._budget.spent += cost
        return (frame,)

    def _mask_frame(self, owner: ContentOwner, frame: Frame) -> bool:
        """Mask a frame and the event around it. Return whether masking changed anything."""
        is_partial = frame.is_unfinished_event or owner.side.is_long
        if is_partial and self._bodies is not None and self._bodies.hide_event(frame):
            return True
        raw, event = frame.raw, frame.event
        frame.raw = self._mask_bytes(owner, frame)
        ids = owner.connection.ids
        is_changed = frame.raw is not raw and frame.raw != raw
        if event is None or not (is_changed or ids):
            return is_changed
        mask, before, after = self._mask, event.before, event.after
        # If ``after`` is None, ``before`` repeats the frame.
        before = b"" if is_changed and after is None else mask.ids(before, ids)
        after = None if after is None else mask.ids(after, ids)
        id = None if event.id is None else mask.text(event.id, ids)
        if (before, after, id) == (event.before, event.after, event.id):
            return is_changed
        frame.event = SseEvent(before, after, id, event.name, event.retry)
        return True

    def _mask_bytes(self, owner: ContentOwner, frame: Frame) -> bytes:
        """Return the bytes of a frame with credentials and session ids masked."""
        connection = owner.connection
        if frame.event is not None and frame.event.name == "endpoint":
            connection.learn(self._mask.ids_in(frame.raw.decode("latin-1")))
            return self._mask.endpoint(frame.raw)
        if self._bodies is not None:
            raw = self._bodies.masked(frame.raw, is_piece=frame.continues or owner.side.is_long)
        else:
            raw = self._mask.body(frame.raw) if owner.side.is_masked else frame.raw
        return self._mask.ids(raw, connection.ids)
