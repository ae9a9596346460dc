"""From the content of an HTTP message to frames: a body is one, an event stream is one per event.

A body that is compressed is decoded here, in the copy.
"""

from io import BytesIO
from typing import Final

from mcpproxy.framing.coding import Chain, Decoder, decoder
from mcpproxy.framing.sse import LIMIT_BYTES, SseBlock, SseFramer
from mcpproxy.session.frame import Frame, Sender, SseEvent

BODY_BYTES: Final = 16 << 20
"""The longest body that becomes one frame. A longer one is recorded whole, in pieces, and not judged:
to judge it takes several times its size in memory."""


class WholeBody:
    """A body that is one frame; one too long to hold comes in pieces."""

    __slots__ = ("_at_ns", "_held", "_sender")

    def __init__(self, sender: Sender) -> None:
        self._sender: Sender = sender
        self._held = BytesIO()  # gives its content away without copying it
        self._at_ns = 0

    @property
    def held_bytes(self) -> int:
        return self._held.tell()

    def feed(self, data: bytes, at_ns: int) -> list[Frame]:
        """Take the next part of the content; the frames that are complete with it."""
        frames: list[Frame] = []
        while self.held_bytes + len(data) > BODY_BYTES:
            fits = BODY_BYTES - self.held_bytes
            self._held.write(data[:fits])
            frames.append(self._frame(at_ns, is_whole=False, continues=True))
            data = data[fits:]
        self._held.write(data)
        self._at_ns = at_ns
        return frames

    def end(self, at_ns: int | None, *, is_whole: bool) -> list[Frame]:
        """The content is over, or cut short. Without a time, the one of its last part stands."""
        if not self.held_bytes:
            return []
        return [self._frame(self._at_ns if at_ns is None else at_ns, is_whole=is_whole, continues=False)]

    def _frame(self, at_ns: int, *, is_whole: bool, continues: bool) -> Frame:
        held, self._held = self._held, BytesIO()
        return Frame(0, self._sender, held.getvalue(), at_ns, is_whole, continues)


class EventBody:
    """An event stream: one frame per event, as it comes."""

    __slots__ = ("_at_ns", "_framer", "_sender", "held_bytes")

    def __init__(self, sender: Sender) -> None:
        self._sender: Sender = sender
        self._framer = SseFramer()
        self._at_ns = 0
        self.held_bytes = 0

    def feed(self, data: bytes, at_ns: int) -> list[Frame]:
        """Take the next part of the stream; the frames that are complete with it."""
        self._at_ns = at_ns
        return self._frames(self._framer.feed(data, at_ns), len(data))

    def end(self, at_ns: int | None, *, is_whole: bool) -> list[Frame]:
        """The stream is over. What no blank line ended is no event, however the stream ended."""
        del is_whole
        return self._frames(self._framer.end(self._at_ns if at_ns is None else at_ns), 0)

    def _frames(self, blocks: list[SseBlock], came: int) -> list[Frame]:
        self.held_bytes += came - sum(len(block.raw) for block in blocks)
        return [event_frame(self._sender, block) for block in blocks]


def event_frame(sender: Sender, block: SseBlock) -> Frame:
    """The frame of one block of an event stream."""
    raw, data, span = block.raw, block.data, block.data_span
    if data is None:
        if not block.complete and len(raw) >= LIMIT_BYTES:  # a piece of an event too long to hold
            return Frame(0, sender, raw, block.at_ns, False, True, event=SseEvent(b"", b""))
        before, after = raw, b""
    elif span is None:
        before, after = raw, None
    else:
        before, after = raw[: span[0]], raw[span[1] :]
    event = SseEvent(before, after, block.id, block.event, block.retry)
    return Frame(0, sender, data or b"", block.at_ns, block.complete, event=event)


Body = WholeBody | EventBody


class Coded:
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

    def feed(self, data: bytes) -> bytes:
        """The content that ``data`` brings; nothing once ``why`` is set."""
        if self._decoder is None:
            return b""
        content = self._decoder.feed(data)
        self.why = self._decoder.why
        return content

    def end(self) -> None:
        """The body is over: ``why`` says if its content is not."""
        if self._decoder is not None:
            self._decoder.end()
            self.why = self._decoder.why


def coding_of(field: str | None) -> str:
    """What a Content-Encoding field says, empty if that is nothing."""
    names = [name.strip(" \t").lower() for name in (field or "").split(",")]
    return ", ".join(name for name in names if name not in ("", "identity"))
