"""Split chunks into events: the framing of ``text/event-stream``.

A block is everything up to and including a blank line: an event, comments alone, or only the blank line. A
line ends at LF, CRLF or CR, so only the next byte shows whether a CR at the end of a chunk is a whole line
end. The blocks depend on the bytes alone, not on how they were cut into chunks. The time of a block is that
of the chunk that completed it.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
"""

import re
from io import BytesIO
from typing import Final, NamedTuple

LIMIT_BYTES: Final = 64 << 20
"""The longest block that is held in one piece."""

_BOM: Final = b"\xef\xbb\xbf"
_RETRY_DIGITS: Final = 18
"""A ``retry`` with more digits is ignored."""

_LINE_ENDS = (b"\n", b"\r\n", b"\r")
_LINE_END = re.compile(rb"\n|\r\n?+")
# The repetitions are possessive; otherwise a CRLF could match as two line ends.
_BLANK_LINE = re.compile(rb"(?:\n|\r\n?+)(?:\n|\r\n?+)")
_LINE = re.compile(rb"([^:\r\n]*+)(?:: ?+([^\r\n]*+))?(?:\n|\r\n?+|\Z)")
# The blocks that most servers send: matching such a block as a whole is three times as fast as line by line.
_USUAL = re.compile(
    rb"(?:id: ?+([^\r\n\0]*+)\r?\n)?(?:event: ?+([^\r\n]*+)\r?\n)?(?:id: ?+([^\r\n\0]*+)\r?\n)?"
    rb"data: ?+([^\r\n]*+)\r?\n\r?\n"
)


class SseBlock(NamedTuple):
    """One block of the stream, or a piece of a block that is too long to hold.

    ``raw`` holds the exact bytes of the block, with line ends, blank line and byte order mark: joined in
    order, the ``raw`` of all blocks are the stream. ``data`` joins the values of the data fields by LF,
    ``None`` if there is no such field; ``data_span`` is the place of the value in ``raw``, if there is
    exactly one data field. ``event``, ``id`` and ``retry`` (milliseconds) are ``None`` if the field is absent
    or has to be ignored. ``comments`` are without their colon and the space after it. Text that is not UTF-8
    gets replacement characters.

    ``complete`` is false for a block that no client processes: a last block without a blank line (its fields
    are read nevertheless), and the pieces of a block that is too long to hold (their fields are not read).
    """

    raw: bytes
    at_ns: int
    data: bytes | None = None
    event: str | None = None
    id: str | None = None
    retry: int | None = None
    comments: tuple[str, ...] = ()
    data_span: tuple[int, int] | None = None
    complete: bool = True


class SseFramer:
    """Splits the decoded body of one response into blocks, which it returns in order.

    A block of more than ``limit`` bytes is returned in pieces.
    """

    __slots__ = ("_at_ns", "_held", "_in_line", "_in_pieces", "_limit", "_return", "_start")

    def __init__(self, limit: int = LIMIT_BYTES) -> None:
        self._limit = limit
        self._held = BytesIO()  # the beginning of a block; ``BytesIO`` returns it without a copy
        self._in_line = False  # the bytes so far end inside a line
        self._in_pieces = False  # a piece of this block was returned already
        self._return = b""  # a CR that may be the first half of a CRLF
        self._at_ns = 0  # the time of the last chunk
        self._start = True  # no block was returned yet: a byte order mark may come

    def feed(self, data: bytes, at_ns: int) -> list[SseBlock]:
        """Return the blocks that the next chunk of the stream completes; ``at_ns`` is when it was read."""
        blocks: list[SseBlock] = []
        if not data:
            return blocks
        if self._return and data[0] == 0x0A:
            data = b"\r" + data
        elif self._return:
            # The CR was a line end by itself, so its time is that of the previous chunk.
            self._split(b"\r", self._at_ns, blocks)
        self._return = data[-1:] if data[-1] == 0x0D else b""
        self._at_ns = at_ns
        self._split(data[:-1] if self._return else data, at_ns, blocks)
        return blocks

    def end(self, at_ns: int) -> list[SseBlock]:
        """End the stream: the incomplete block, if any, becomes the last block, without a blank line."""
        blocks: list[SseBlock] = []
        self._split(self._return, self._at_ns, blocks)
        self._return = b""
        if self._held.tell():
            blocks.append(self._make_block(self._take_held(), at_ns, complete=False))
        return blocks

    def spill(self) -> bytes:
        """Return the held beginning of a block, and stop holding it. The block's other bytes become
        another piece."""
        raw = self._take_held()
        if raw:
            self._in_pieces, self._start = True, False
        return raw

    def _split(self, data: bytes, at_ns: int, blocks: list[SseBlock]) -> None:
        """Split bytes into blocks. A CR at the end of ``data`` is known to be a complete line end."""
        position, end = 0, len(data)
        while position < end:
            usual_block = None if self._in_line or self._held.tell() else _USUAL.match(data, position)
            if usual_block is not None and usual_block.end() - position <= self._limit:
                position = usual_block.end()
                blocks.append(_usual_block(usual_block, usual_block[0], at_ns, complete=True))
                self._start = False
                continue
            blank = None if self._in_line else _LINE_END.match(data, position)
            # In a long line without an end, ``find`` is fifty times as fast as the pattern.
            if blank is None and (data.find(b"\n", position) >= 0 or data.find(b"\r", position) >= 0):
                blank = _BLANK_LINE.search(data, position)
            if blank is None:
                self._hold(data[position:], at_ns, blocks)
                self._in_line = data[-1] not in b"\r\n"
                return
            part, position = data[position : blank.end()], blank.end()
            if self._held.tell() or len(part) > self._limit:
                self._hold(part, at_ns, blocks)
                part = self._take_held()
            blocks.append(self._make_block(part, at_ns, complete=True))
            self._in_line = self._in_pieces = False

    def _hold(self, part: bytes, at_ns: int, blocks: list[SseBlock]) -> None:
        """Hold the beginning of a block; each time it exceeds the limit, append a piece to ``blocks``."""
        # A piece is cut only when a byte beyond the limit comes, so a block of exactly the limit stays whole.
        while self._held.tell() + len(part) > self._limit:
            fits = self._limit - self._held.tell()
            self._held.write(part[:fits])
            self._in_pieces = True
            blocks.append(self._make_block(self._take_held(), at_ns, complete=False))
            part = part[fits:]
        self._held.write(part)

    def _take_held(self) -> bytes:
        """Remove and return the held beginning of a block."""
        held, self._held = self._held, BytesIO()
        return held.getvalue()

    def _make_block(self, raw: bytes, at_ns: int, complete: bool) -> SseBlock:
        start = len(_BOM) if self._start and raw.startswith(_BOM) else 0
        self._start = False
        if self._in_pieces or raw in _LINE_ENDS:
            return SseBlock(raw, at_ns, complete=not self._in_pieces)
        return _parse_block(raw, start, at_ns, complete)


def _usual_block(match: re.Match[bytes], raw: bytes, at_ns: int, *, complete: bool) -> SseBlock:
    """Return the block ``raw`` from the match of ``_USUAL``, which does not include the byte order mark."""
    id_before, event_name, id_after, data = match.groups()
    id_bytes = id_before if id_after is None else id_after
    data_start, data_end = match.span(4)
    start = match.end() - len(raw)  # where ``raw`` begins in the bytes that were matched
    return SseBlock(
        raw,
        at_ns,
        data,
        event=None if event_name is None else event_name.decode("utf-8", "replace"),
        id=None if id_bytes is None else id_bytes.decode("utf-8", "replace"),
        retry=None,
        comments=(),
        data_span=(data_start - start, data_end - start),
        complete=complete,
    )


def _parse_block(raw: bytes, start: int, at_ns: int, complete: bool) -> SseBlock:
    """Parse the fields of a block from ``start`` on. Of repeated fields the last counts; data values are
    joined."""
    if usual_match := _USUAL.fullmatch(raw, start):
        return _usual_block(usual_match, raw, at_ns, complete=complete)
    event = id = retry = None
    spans: list[tuple[int, int]] = []
    comments: list[str] = []
    for line in _LINE.finditer(raw, start):
        name, value = line.groups(b"")
        if name == b"data":
            spans.append(line.span(2) if line.lastindex == 2 else (line.end(1), line.end(1)))
        elif name == b"event":
            event = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit() and len(value) <= _RETRY_DIGITS:
            retry = int(value)
        elif not name and line.lastindex == 2:
            comments.append(value.decode("utf-8", "replace"))
    span = spans[0] if len(spans) == 1 else None
    data = b"\n".join([raw[begin:stop] for begin, stop in spans]) if spans else None
    return SseBlock(
        raw,
        at_ns,
        data,
        event=event,
        id=id,
        retry=retry,
        comments=tuple(comments),
        data_span=span,
        complete=complete,
    )
