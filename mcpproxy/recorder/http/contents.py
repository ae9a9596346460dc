"""Contents of HTTP messages on their way into the trace: decoded, masked, in pieces where they must be.

A body that is compressed is filed twice: as ``Encoded`` records, the bytes that passed, and as the frames
that they stand for. Where masking changes what they stand for, the encoded bytes are left out. A note says of
each body that it was masked.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from mcpproxy.framing.http1 import Side
from mcpproxy.recorder.http.body_frames import BODY_BYTES, Body, ContentDecoder, EventBody, in_pieces
from mcpproxy.recorder.http.connections import Connection, ExchangeSide, OpenExchange
from mcpproxy.recorder.http.memory_budget import DECODED_RATIO, HELD_BYTES, Budget
from mcpproxy.recorder.masking import Masker
from mcpproxy.session.frame import CLIENT, SERVER, Frame, Note, Sender, SseEvent
from mcpproxy.trace.records import Encoded, Recorded

_RECORD_BYTES: Final = 160
"""About what the record of a frame takes beside its content."""

_SLICE_BYTES: Final = 16 << 10
"""So much of an event stream that was decoded is taken apart at a time: it may be thousands of events."""

_TOO_MUCH_DECODED: Final = f"content not recorded: it decodes to more than {DECODED_RATIO} times what passed"
_TOO_MUCH_HELD: Final = f"what is not over yet takes more than {HELD_BYTES >> 20} MiB: recorded in pieces"


class ContentOwner(NamedTuple):
    """Whose content it is: one half of an exchange on a connection, and who says it."""

    connection: Connection
    exchange: OpenExchange
    half: ExchangeSide
    of: Side

    @property
    def sender(self) -> Sender:
        """The peer whose part it is; ours is the server's."""
        return CLIENT if self.of == "client" else SERVER

    def encoded(self, data: bytes, at_ns: int) -> Encoded:
        """The record of bytes under a content coding."""
        return Encoded(self.exchange.number, self.connection.number, self.sender, data, at_ns)

    def note(self, what: str, why: str, at_ns: int) -> Note:
        """A note on the connection."""
        return Note(self.connection.number, what, why, at_ns)


class Contents:
    """Takes contents of all connections. Its frames have no number yet.

    ``mask`` hides what nobody is to read, ``budget`` is the memory for what is judged, and ``held`` tells
    how much is held of what is not over yet.
    """

    def __init__(self, mask: Masker, budget: Budget, held: Callable[[], int]) -> None:
        self._mask = mask
        self._budget = budget
        self._held = held
        self.grown = 0
        """How much content came since somebody last looked at what is held."""

    def feed(self, owner: ContentOwner, data: bytes, at_ns: int) -> Iterable[Recorded]:
        """The next bytes of a content, transfer coding removed. All that it gives is to be asked for."""
        half = owner.half
        if half.decoder is not None:
            return self._feed_decoder(owner, half.decoder, data, at_ns)
        if half.body is None:
            return ()
        self.grown += len(data)
        frames = half.body.feed(data, at_ns)
        return self._framed(owner, frames) if frames else ()

    def spill(self, owner: ContentOwner, at_ns: int) -> Iterator[Recorded]:
        """File what is held of a content that goes on; it is not judged then."""
        half = owner.half
        if half.body is None:
            return
        if not half.is_long:
            yield owner.note("not-judged", _TOO_MUCH_HELD, at_ns)
        if half.decoder is not None and not isinstance(half.body, EventBody):
            half.kept_bytes = max(half.kept_bytes, BODY_BYTES + 1)
            yield from self._file_kept(owner)
        yield from self._framed(owner, half.body.spill())

    def end(self, owner: ContentOwner, at_ns: int | None, *, is_whole: bool) -> Iterable[Recorded]:
        """The content is over, or cut short. Without a time, the one of its last bytes stands."""
        half = owner.half
        body, half.body = half.body, None
        if body is None:
            return ()
        if half.decoder is not None:
            return self._end_decoder(owner, half.decoder, body, at_ns, is_whole)
        return self._framed(owner, body.end(at_ns, is_whole=is_whole))

    def _end_decoder(
        self, owner: ContentOwner, decoder: ContentDecoder, body: Body, at_ns: int | None, is_whole: bool
    ) -> Iterator[Recorded]:
        half = owner.half
        if is_whole:
            decoder.end()
            if decoder.why and at_ns is not None:
                yield owner.note("not-decoded", decoder.why, at_ns)
                is_whole = False
        frames: Iterable[Frame] = body.end(at_ns, is_whole=is_whole)
        kept, half.kept = half.kept, None
        if kept and half.kept_bytes <= BODY_BYTES:
            frames = list(frames)
            if all(self._masked(owner, frame) == frame.raw for frame in frames):
                for data, when_ns in kept:
                    yield owner.encoded(data, when_ns)
        yield from self._framed(owner, frames)

    def _feed_decoder(
        self, owner: ContentOwner, decoder: ContentDecoder, data: bytes, at_ns: int
    ) -> Iterator[Recorded]:
        half = owner.half
        if half.body is None:
            if not half.is_masked and not half.is_noted:
                yield owner.encoded(data, at_ns)
            return
        is_stream = isinstance(half.body, EventBody)
        if not is_stream:
            yield from self._keep_back(owner, data, at_ns)
        why = ""
        for part in self._affordable_parts(decoder.feed(data), is_stream):
            if not part:
                why = _TOO_MUCH_DECODED
                break
            self.grown += len(part)
            for event in self._framed(owner, half.body.feed(part, at_ns)):
                self._budget.decoded_left -= _RECORD_BYTES
                yield event
        # Whether something in an event is masked is known by now.
        if is_stream and not half.is_masked and not half.is_noted:
            yield owner.encoded(data, at_ns)
        if why := why or decoder.why:
            yield from self._unreadable(owner, why, data, at_ns)

    def _affordable_parts(self, contents: Iterable[bytes], is_stream: bool) -> Iterator[bytes]:
        """What was decoded, part by part; an empty one stands for what is not to be recorded."""
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
        """Keep encoded bytes until it is known whether something in them is masked.

        Of a body that is too long for that, those that may be credentials are left out, and those that may
        only repeat a session id are not.
        """
        half = owner.half
        if half.kept_bytes <= BODY_BYTES:
            half.kept = half.kept or []
            half.kept.append((data, at_ns))
            half.kept_bytes += len(data)
        elif not half.is_masked:
            yield owner.encoded(data, at_ns)
        if half.kept_bytes > BODY_BYTES or not (half.is_masked or owner.connection.ids):
            yield from self._file_kept(owner)

    def _file_kept(self, owner: ContentOwner) -> Iterator[Encoded]:
        """File what was kept back, unless it may be credentials."""
        half = owner.half
        kept, half.kept = half.kept, None
        if not half.is_masked:
            for data, at_ns in kept or ():
                yield owner.encoded(data, at_ns)

    def _unreadable(self, owner: ContentOwner, why: str, data: bytes, at_ns: int) -> Iterator[Recorded]:
        """A body cannot be decoded. A piece that goes on says so to the judge, who concludes nothing then."""
        owner.half.body = None
        yield from self._file_kept(owner)
        yield owner.note("not-decoded", why, at_ns)
        if owner.half.is_masked:  # in what nobody can read, nothing can be masked
            yield owner.note("withheld", "the body may hold credentials", at_ns)
        else:
            piece = Frame(0, owner.sender, data, at_ns, terminated=False, continues=True)
            yield from self._framed(owner, [piece])

    def _framed(self, owner: ContentOwner, frames: Iterable[Frame]) -> Iterator[Recorded]:
        half, exchange, connection = owner.half, owner.exchange, owner.connection
        by_proxy = owner.of == "proxy"
        for whole in frames:
            if self._mask_frame(owner, whole) and not half.is_noted:
                half.is_noted = True
                why = f"credentials in what the {owner.of} sent"
                yield owner.note("masked", why, whole.observed_at_ns)
            for frame in self._affordable(owner, whole):
                frame.exchange, frame.connection = exchange.number, connection.number
                frame.by_proxy = by_proxy
                yield frame

    def _affordable(self, owner: ContentOwner, frame: Frame) -> Iterable[Frame]:
        """A frame, or its pieces where there is no memory to judge it."""
        half, exchange = owner.half, owner.exchange
        if frame.continues or half.is_long:
            half.is_long = frame.continues
            return in_pieces(frame)
        cost = self._budget.cost(frame.raw, self._held)
        if cost is None:
            return in_pieces(frame, at_least=2)
        if cost and frame.sender == CLIENT:
            exchange.cost += cost
            self._budget.spent += cost
        return (frame,)

    def _mask_frame(self, owner: ContentOwner, frame: Frame) -> bool:
        """Mask a frame and the event around it; whether that changed anything."""
        raw, event = frame.raw, frame.event
        frame.raw = self._masked(owner, frame)
        ids = owner.connection.ids
        is_changed = frame.raw is not raw and frame.raw != raw
        if event is None or not (is_changed or ids):
            return is_changed
        mask, before, after = self._mask, event.before, event.after
        # Without an after, they repeat the frame's bytes.
        before = b"" if is_changed and after is None else mask.ids(before, ids)
        after = None if after is None else mask.ids(after, ids)
        id = None if event.id is None else mask.text(event.id, ids)
        # What masking leaves as it is, it gives back itself.
        if before is event.before and after is event.after and id is event.id:
            return is_changed
        around = SseEvent(before, after, id, event.name, event.retry)
        if is_changed := is_changed or around != event:
            frame.event = around
        return is_changed

    def _masked(self, owner: ContentOwner, frame: Frame) -> bytes:
        """The bytes of a frame, without what nobody is to read."""
        connection = owner.connection
        if frame.event is not None and frame.event.name == "endpoint":
            connection.learn(self._mask.ids_in(frame.raw.decode("latin-1")))
            return self._mask.endpoint(frame.raw)
        raw = self._mask.body(frame.raw) if owner.half.is_masked else frame.raw
        return self._mask.ids(raw, connection.ids)
