"""From the content of an HTTP message to frames: a body is one, an event stream is one per event.

A body that is compressed is decoded here, in the copy. What is too long to hold, or would cost too much
memory to judge, comes in pieces: it is recorded whole and not judged.
"""

from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import Final

from mcpproxy.framing.coding import Chain, Decoder, decoder
from mcpproxy.framing.sse import SseBlock, SseFramer
from mcpproxy.protocol.jsonrpc import Flaw, Malformed
from mcpproxy.session.frame import Frame, Sender, SseEvent

BODY_BYTES: Final = 16 << 20
"""The longest body, or event, that may become one frame."""

PIECE_BYTES: Final = 1 << 20
"""How long a piece of a longer one is in the trace."""


class WholeBody:
    """A body that is one frame; one too long to hold comes in several."""

    __slots__ = ("_at_ns", "_first", "_held", "_sender")

    def __init__(self, sender: Sender) -> None:
        self._sender: Sender = sender
        self._first = b""  # all that came, while that is one part
        self._held: BytesIO | None = None  # gives its content away without copying it
        self._at_ns = 0

    @property
    def held_bytes(self) -> int:
        return len(self._first) if self._held is None else self._held.tell()

    def feed(self, data: bytes, at_ns: int) -> Iterable[Frame]:
        """Take the next part of the content; the frames that are complete with it."""
        if self.held_bytes or len(data) > BODY_BYTES:
            return self._feed(data, at_ns)
        self._first, self._at_ns = data, at_ns
        return ()

    def _feed(self, data: bytes, at_ns: int) -> Iterator[Frame]:
        self._at_ns = at_ns
        while self.held_bytes + len(data) > BODY_BYTES:
            fits = BODY_BYTES - self.held_bytes
            self._hold(data[:fits])
            yield self._frame(at_ns, is_whole=False, continues=True)
            data = data[fits:]
        self._hold(data)

    def _hold(self, data: bytes) -> None:
        if self._held is None:
            self._held = BytesIO()
            self._held.write(self._first)
            self._first = b""
        self._held.write(data)

    def spill(self) -> Iterator[Frame]:
        """What is held, as a piece of a longer one: there is no more room to hold it."""
        if self.held_bytes:
            yield self._frame(self._at_ns, is_whole=False, continues=True)

    def end(self, at_ns: int | None, *, is_whole: bool) -> tuple[Frame, ...]:
        """The content is over, or cut short. Without a time, the one of its last part stands."""
        if not self.held_bytes:
            return ()
        return (self._frame(self._at_ns if at_ns is None else at_ns, is_whole=is_whole, continues=False),)

    def _frame(self, at_ns: int, *, is_whole: bool, continues: bool) -> Frame:
        raw = self._first if self._held is None else self._held.getvalue()
        self._first, self._held = b"", None
        return Frame(0, self._sender, raw, at_ns, is_whole, continues)


class EventBody:
    """An event stream: one frame per event, as it comes; an event too long to hold comes in several."""

    __slots__ = ("_at_ns", "_framer", "_sender", "held_bytes")

    def __init__(self, sender: Sender) -> None:
        self._sender: Sender = sender
        self._framer = SseFramer(BODY_BYTES)
        self._at_ns = 0
        self.held_bytes = 0

    def feed(self, data: bytes, at_ns: int) -> Iterable[Frame]:
        """Take the next part of the stream; the frames that are complete with it."""
        self._at_ns = at_ns
        blocks = self._framer.feed(data, at_ns)
        self.held_bytes += len(data)
        if len(blocks) != 1:
            return self._frames(blocks)
        block = blocks[0]  # as servers mostly send them
        self.held_bytes -= len(block.raw)
        return (event_frame(self._sender, block),)

    def spill(self) -> Iterator[Frame]:
        """What is held, as a piece of a longer event: there is no more room to hold it."""
        if raw := self._framer.spill():
            self.held_bytes -= len(raw)
            yield Frame(0, self._sender, raw, self._at_ns, False, True, event=SseEvent(b"", b""))

    def end(self, at_ns: int | None, *, is_whole: bool) -> Iterator[Frame]:
        """The stream is over. What no blank line ended is no event, however the stream ended."""
        del is_whole
        return self._frames(self._framer.end(self._at_ns if at_ns is None else at_ns))

    def _frames(self, blocks: list[SseBlock]) -> Iterator[Frame]:
        self.held_bytes -= sum(len(block.raw) for block in blocks)
        blocks.reverse()
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
"""Short comments and blank lines that came at once become one frame: each by itself would make a record of
fifty times its size."""


def _is_bare(block: SseBlock) -> bool:
    """Whether a block says nothing to a client: a comment, or blank lines."""
    return block.complete and block.data is block.id is block.event is block.retry is None


def event_frame(sender: Sender, block: SseBlock) -> Frame:
    """The frame of one block of an event stream."""
    raw, data, span = block.raw, block.data, block.data_span
    if data is None:
        if not block.complete and len(raw) > PIECE_BYTES:  # a piece of an event too long to hold
            continues = len(raw) >= BODY_BYTES
            return Frame(0, sender, raw, block.at_ns, False, continues, event=SseEvent(b"", b""))
        before, after = raw, b""
    elif span is None:
        before, after = raw, None
    else:
        before, after = raw[: span[0]], raw[span[1] :]
    event = SseEvent(before, after, block.id, block.event, block.retry)
    return Frame(0, sender, data or b"", block.at_ns, block.complete, event=event)


_PIECE: Final = Malformed(Flaw.NOT_JSON)


def in_pieces(frame: Frame, at_least: int = 1) -> Iterator[Frame]:
    """The same bytes in ``at_least`` so many frames of up to ``PIECE_BYTES``, none of which is judged."""
    raw, event = frame.raw, frame.event
    if event is not None:
        raw = event.before + (b"" if event.after is None else raw + event.after)
        event = SseEvent(b"", b"")
    start, end = 0, len(raw)
    size = min(PIECE_BYTES, -(-end // at_least))
    while start < end:
        stop = _between_characters(raw, start, min(start + size, end))
        goes_on = frame.continues or stop < end
        is_whole = frame.terminated and not goes_on
        piece = Frame(0, frame.sender, raw[start:stop], frame.observed_at_ns, is_whole, goes_on, event=event)
        yield piece.understood(_PIECE)  # to parse it would cost what the pieces are to save
        start = stop


def _between_characters(raw: bytes, start: int, stop: int) -> int:
    """Not behind ``stop``, and not within a character if it is UTF-8, so that a piece can be read as text."""
    for back in range(4):
        if stop - back <= start:
            break
        if stop - back == len(raw) or not 0x80 <= raw[stop - back] < 0xC0:
            return stop - back
    return stop


Body = WholeBody | EventBody


class ContentDecoder:
    """The content coding of one body, undone. ``why`` says why it cannot be, empty while it can."""

    TRANSIENT = ("_decoder",)
    """Not in a checkpoint: it is shown again what the trace keeps of the encoded bytes."""

    def __init__(self, coding: str) -> None:
        self.coding = coding
        self._decoder: Decoder | Chain | None = None
        self.why = ""
        self.begin()

    def begin(self) -> None:
        """Start from the first byte, also after a checkpoint was read."""
        self._decoder = decoder(self.coding)
        if self._decoder is None:
            self.why = f"the content coding {self.coding} cannot be undone here"

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The content that ``data`` brings, little by little; nothing once ``why`` is set."""
        if self._decoder is not None:
            yield from self._decoder.parts(data)
            self.why = self._decoder.why

    def end(self) -> None:
        """The body is over: ``why`` says if its content is not."""
        if self._decoder is not None:
            self._decoder.end()
            self.why = self._decoder.why


def coding_of(field: str | None) -> str:
    """What a Content-Encoding field says, empty if that is nothing."""
    names = [name.strip(" \t").lower() for name in (field or "").split(",")]
    return ", ".join(name for name in names if name not in ("", "identity"))
