"""Turn the content of HTTP messages into frames: one for a body, one for each event of an event stream.

A compressed body is decoded here, in the recorder's copy. A body or event that is too long to hold, or that
would need too much memory to judge, is split into pieces: it is recorded completely, but not judged."""

from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import Final

from mcpproxy.judge.session.frame import Frame, Sender, SseEvent
from mcpproxy.protocol.jsonrpc import Flaw, Malformed
from mcpproxy.record.framing.coding import Chain, Decoder, decoder
from mcpproxy.record.framing.sse import SseBlock, SseFramer

BODY_BYTES: Final = 16 << 20
"""The longest body, or event, that may become one frame."""

PIECE_BYTES: Final = 1 << 20
"""The longest piece of a longer body or event in the trace."""


class WholeBody:
    """A body, which becomes one frame, or several if it is too long to hold."""

    __slots__ = ("_at_ns", "_first", "_held", "_sender")

    def __init__(self, sender: Sender) -> None:
        self._sender: Sender = sender
        self._first = b""  # the whole body, if it has come in one part so far
        self._held: BytesIO | None = None  # getvalue does not copy the content
        self._at_ns = 0

    @property
    def held_bytes(self) -> int:
        return len(self._first) if self._held is None else self._held.tell()

    def feed(self, data: bytes, at_ns: int) -> Iterable[Frame]:
        """Return the frames that the next part of the content completes."""
        if self.held_bytes or len(data) > BODY_BYTES:
            return self._feed(data, at_ns)
        self._first, self._at_ns = data, at_ns
        return ()

    def _feed(self, data: bytes, at_ns: int) -> Iterator[Frame]:
        self._at_ns = at_ns
        while self.held_bytes + len(data) > BODY_BYTES:
            fits = BODY_BYTES - self.held_bytes
            self._hold(data[:fits])
            yield self._take_frame(at_ns, is_whole=False, continues=True)
            data = data[fits:]
        self._hold(data)

    def _hold(self, data: bytes) -> None:
        if self._held is None:
            self._held = BytesIO()
            self._held.write(self._first)
            self._first = b""
        self._held.write(data)

    def spill(self) -> Iterator[Frame]:
        """Yield the held bytes as a piece of a longer body, because there is no more room to hold them."""
        if self.held_bytes:
            yield self._take_frame(self._at_ns, is_whole=False, continues=True)

    def end(self, at_ns: int | None, *, is_whole: bool) -> tuple[Frame, ...]:
        """End the content; ``is_whole`` is false if it was cut. Return the frame of the held bytes, if any.

        If ``at_ns`` is ``None``, the frame gets the time of the last part."""
        if not self.held_bytes:
            return ()
        return (
            self._take_frame(self._at_ns if at_ns is None else at_ns, is_whole=is_whole, continues=False),
        )

    def _take_frame(self, at_ns: int, *, is_whole: bool, continues: bool) -> Frame:
        raw = self._first if self._held is None else self._held.getvalue()
        self._first, self._held = b"", None
        return Frame(0, self._sender, raw, at_ns, is_whole, continues)


class EventBody:
    """An event stream: each event becomes one frame, or several if it is too long to hold."""

    __slots__ = ("_at_ns", "_framer", "_sender", "held_bytes")

    def __init__(self, sender: Sender) -> None:
        self._sender: Sender = sender
        self._framer = SseFramer(BODY_BYTES)
        self._at_ns = 0
        self.held_bytes = 0

    def feed(self, data: bytes, at_ns: int) -> Iterable[Frame]:
        """Return the frames that the next part of the stream completes."""
        self._at_ns = at_ns
        blocks = self._framer.feed(data, at_ns)
        self.held_bytes += len(data)
        if len(blocks) != 1:
            return self._frames_of(blocks)
        block = blocks[0]  # the usual case: a chunk has one event
        self.held_bytes -= len(block.raw)
        return (event_frame(self._sender, block),)

    def spill(self) -> Iterator[Frame]:
        """Yield the held bytes as a piece of a longer event, because there is no more room to hold them."""
        if raw := self._framer.spill():
            self.held_bytes -= len(raw)
            yield Frame(0, self._sender, raw, self._at_ns, False, True, event=SseEvent(b"", b""))

    def end(self, at_ns: int | None, *, is_whole: bool) -> Iterator[Frame]:
        """End the stream. Bytes without a blank line after them are never an event, so ``is_whole`` is not
        used.

        If ``at_ns`` is ``None``, the frame gets the time of the last part.
        """
        del is_whole
        return self._frames_of(self._framer.end(self._at_ns if at_ns is None else at_ns))

    def _frames_of(self, blocks: list[SseBlock]) -> Iterator[Frame]:
        self.held_bytes -= sum(len(block.raw) for block in blocks)
        blocks.reverse()  # so that ``pop`` removes the blocks in order, and their memory is freed
        while blocks:
            block = blocks.pop()
            if len(blocks) >= _FEW_BLOCKS and _is_bare(block):
                alike = [block.raw]
                while blocks and _is_bare(blocks[-1]) and len(blocks[-1].raw) <= _BARE_BYTES:
                    alike.append(blocks.pop().raw)
                block = block._replace(raw=b"".join(alike))
            yield event_frame(self._sender, block)


_FEW_BLOCKS: Final = 4
_BARE_BYTES: Final = 16
"""While more than ``_FEW_BLOCKS`` blocks of a chunk are left, a block without fields (comments or a blank
line) and the following ones of up to ``_BARE_BYTES`` become one frame: the record of a frame is fifty times
as long as such a block."""


def _is_bare(block: SseBlock) -> bool:
    """Whether a block has no fields: it consists of comments or a blank line."""
    return block.complete and block.data is block.id is block.event is block.retry is None


def event_frame(sender: Sender, block: SseBlock) -> Frame:
    """Return the frame of one block of an event stream."""
    raw, data, span = block.raw, block.data, block.data_span
    if data is None:
        if not block.complete and len(raw) > PIECE_BYTES:  # a piece of an event too long to hold
            continues = len(raw) >= BODY_BYTES  # every piece but the last has this length
            return Frame(0, sender, raw, block.at_ns, False, continues, event=SseEvent(b"", b""))
        before, after = raw, b""
    elif span is None:  # the data was on several lines, so it is not one run of bytes of ``raw``
        before, after = raw, None
    else:
        before, after = raw[: span[0]], raw[span[1] :]
    event = SseEvent(before, after, block.id, block.event, block.retry)
    return Frame(0, sender, data or b"", block.at_ns, block.complete, event=event)


_PIECE: Final = Malformed(Flaw.NOT_JSON)
"""The message of every piece: not a message."""


def in_pieces(frame: Frame, at_least: int = 1) -> Iterator[Frame]:
    """Split a frame into frames of up to ``PIECE_BYTES``, which are not judged: into ``at_least`` or more if
    it is long enough, into none if it is empty."""
    raw, event = frame.raw, frame.event
    if event is not None:
        raw = event.before + (b"" if event.after is None else raw + event.after)
        event = SseEvent(b"", b"")
    start, end = 0, len(raw)
    size = min(PIECE_BYTES, (end + at_least - 1) // at_least)  # rounded up
    while start < end:
        stop = _between_characters(raw, start, min(start + size, end))
        continues = frame.continues or stop < end
        is_whole = frame.terminated and not continues
        piece = Frame(
            0, frame.sender, raw[start:stop], frame.observed_at_ns, is_whole, continues, event=event
        )
        # Set the message of the piece, so that nobody parses it: parsing needs much memory.
        yield piece.with_message(_PIECE)
        start = stop


def _between_characters(raw: bytes, start: int, stop: int) -> int:
    """Return ``stop``, or up to three bytes less so that no UTF-8 character is split."""
    for shortened_by in range(4):
        if stop - shortened_by <= start:
            break
        if stop - shortened_by == len(raw) or not 0x80 <= raw[stop - shortened_by] < 0xC0:
            return stop - shortened_by
    return stop


Body = WholeBody | EventBody


class ContentDecoder:
    """Decodes the content coding of one body. ``why`` is the reason if that fails; empty while it works."""

    TRANSIENT = ("_decoder",)
    """Attributes that are not saved in a checkpoint, from which recording continues after a kill. Then a new
    decoder is fed the encoded bytes that are in the trace."""

    def __init__(self, coding: str) -> None:
        self.coding = coding
        self._decoder: Decoder | Chain | None = None
        self.why = ""
        self.begin()

    def begin(self) -> None:
        """Make a decoder that begins at the start of the body; also called after a checkpoint was read."""
        self._decoder = decoder(self.coding)
        if self._decoder is None:
            self.why = f"the content coding {self.coding} cannot be undone here"

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the decoded content of ``data`` in parts; nothing once ``why`` is set."""
        if self._decoder is not None:
            yield from self._decoder.parts(data)
            self.why = self._decoder.why

    def end(self) -> None:
        """End the body; ``why`` is set if its content is incomplete."""
        if self._decoder is not None:
            self._decoder.end()
            self.why = self._decoder.why
