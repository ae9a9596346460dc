"""Find where a body ends, and read chunks strictly: what two parsers could read differently is refused.

Source: RFC 9112, sections 6.3 and 7.1.
"""

from __future__ import annotations

from mcpproxy.base.patterns import pattern
from mcpproxy.record.relay.http.request_head import CHUNKED, LIMIT_BYTES, Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_LINE_BYTES: Final = 4 << 10
"""The longest line before a chunk, extensions included."""

# 15 digits fit into 64 bits. Extensions may contain any visible character, spaces and tabs.
_CHUNK_LINE: Final = pattern(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?\r\n")
_TRAILER: Final = pattern(rb"(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*)?\r\n")


class LengthCounter:
    """Counts a body of a known length."""

    __slots__ = ("is_over", "left")

    def __init__(self, length: int) -> None:
        self.left = length
        self.is_over = False

    def feed(self, data: bytes, start: int) -> int:
        """Count the bytes of ``data`` from ``start`` on; there is at least one. Return the index where
        the body or ``data`` ends, whichever is first."""
        available = len(data) - start
        if available < self.left:
            self.left -= available
            return len(data)
        self.is_over = True
        return start + self.left


class ChunkedCounter:
    """Counts a body in chunked coding, including its trailers."""

    __slots__ = ("_in_trailers", "_left", "_line", "_trailer_bytes", "is_over")

    def __init__(self) -> None:
        self._left = 0  # bytes left of a chunk and of the line end after it
        self._line = b""  # the beginning of a line that is not complete yet
        self._in_trailers = False
        self._trailer_bytes = 0
        self.is_over = False

    def feed(self, data: bytes, start: int) -> int:
        """Like `LengthCounter.feed`.

        Raises:
            Refusal: the bytes are not chunked coding, two parsers could read them differently, or the line
                before a chunk or the trailers are too long.
        """
        position, size = start, len(data)
        while position < size:
            if self._left > 2:
                taken = min(self._left - 2, size - position)
                self._left -= taken
                position += taken
            elif self._left:
                if data[position] != b"\r\n"[2 - self._left]:
                    raise Refusal(400, "a chunk does not end where its size says")
                self._left -= 1
                position += 1
            else:
                position = self._take_line(data, position)
                if self.is_over:
                    break
        return position

    def _take_line(self, data: bytes, position: int) -> int:
        """Read a trailer or the line before a chunk. Return the index after it, or where ``data`` ends."""
        stop = data.find(b"\n", position) + 1
        line = self._line + data[position : stop or len(data)]
        if len(line) > _LINE_BYTES and not self._in_trailers:
            raise Refusal(400, "a chunk's line is too long")
        if self._trailer_bytes + len(line) > LIMIT_BYTES:
            raise Refusal(431, "the trailers are too long")
        if not stop:
            self._line = line
            return len(data)
        self._line = b""
        if self._in_trailers:
            if _TRAILER.fullmatch(line) is None:
                raise Refusal(400, "a trailer cannot be read")
            self._trailer_bytes += len(line)
            self.is_over = line == b"\r\n"
            return stop
        match = _CHUNK_LINE.fullmatch(line)
        if match is None:
            raise Refusal(400, "a chunk's size cannot be read")
        chunk = int(match[1], 16)
        if chunk:
            self._left = chunk + 2
        else:
            self._in_trailers = True
        return stop


BodyCounter = LengthCounter | ChunkedCounter


def read_chunks(raw: bytes) -> tuple[bytes, int, bool]:
    """Return the content of the complete chunks at the beginning of ``raw``, the index where they end, and
    whether no more content follows: the next bytes are the last chunk, or are no chunk."""
    parts: list[bytes] = []
    position = 0
    while line := _CHUNK_LINE.match(raw, position):
        size = int(line[1], 16)
        stop = line.end() + size
        if not size or line.end() - position > _LINE_BYTES:
            return b"".join(parts), position, True
        if stop + 2 > len(raw):
            return b"".join(parts), position, False
        if raw[stop : stop + 2] != b"\r\n":
            return b"".join(parts), position, True
        parts.append(raw[line.end() : stop])
        position = stop + 2
    return b"".join(parts), position, b"\n" in raw[position:]


def body_counter(length: int) -> BodyCounter | None:
    """Return a counter for a body of ``length`` bytes, or in chunked coding (``CHUNKED``); ``None`` for no
    body."""
    if length == CHUNKED:
        return ChunkedCounter()
    return LengthCounter(length) if length else None
