"""Bodies of HTTP/1.x messages: find where each one ends, and remove its transfer coding.

Content is returned as it arrives; only an incomplete line before or after a chunk, and trailers, are held
back.

Source: RFC 9112, sections 6 and 7.
"""

import re
from typing import Final, Protocol

from mcpproxy.record.framing.heads import LIMIT_BYTES, Framing, Headers, trailers

LINE_LIMIT_BYTES: Final = 16 << 10
"""The longest line of a chunked body: before a chunk (extensions included), after it, or a trailer; each with
its line end."""

# 16 digits fit into 64 bits. Longer numbers are not read, because peers disagree on their value.
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,16}+)[ \t]*+(?:;[^\r\n]*+)?\r?\n")
_BLANK = (b"\r\n", b"\n")
_LENGTH_DIGITS: Final = 18
"""The longest Content-Length that is read, in digits."""


class Body(Protocol):
    """Decodes one body from the bytes that are fed, until the body is ``over`` or ``broken``."""

    @property
    def over(self) -> bool:
        """Whether the body is complete."""
        ...

    @property
    def broken(self) -> str:
        """Why the bytes are not a valid body; empty while they are."""
        ...

    @property
    def trailers(self) -> Headers:
        """The fields after the last chunk."""
        ...

    @property
    def rest(self) -> bytes:
        """The line, or all trailer lines, that broke the body; empty while the body is valid. ``feed`` does
        not return these bytes as content."""
        ...

    def feed(self, data: bytes, start: int) -> tuple[bytes, int]:
        """Read ``data`` from ``start`` on; return the content, and the index of the first byte not read."""
        ...

    def missing(self) -> str:
        """Return a part of a sentence that says what would be missing if the stream ended now; empty if the
        body may end here. Only for a body that is not ``over``."""
        ...


class Length:
    """A body of a known number of bytes."""

    __slots__ = ("_left", "_length", "over")

    broken = ""
    trailers: Headers = ()
    rest = b""

    def __init__(self, length: int) -> None:
        self._length = self._left = length
        self.over = length == 0

    def feed(self, data: bytes, start: int) -> tuple[bytes, int]:
        content = data[start : start + self._left]
        self._left -= len(content)
        self.over = self._left == 0
        return content, start + len(content)

    def missing(self) -> str:
        return f"{self._length - self._left} of {self._length} bytes of the body came"


class UntilClose:
    """A body that ends where its stream ends."""

    __slots__ = ()

    over = False
    broken = ""
    trailers: Headers = ()
    rest = b""

    def feed(self, data: bytes, start: int) -> tuple[bytes, int]:
        return data[start:], len(data)

    def missing(self) -> str:
        return ""


class Chunked:
    """A body in chunks, each preceded by its size; trailer fields may follow the last chunk."""

    __slots__ = ("_left", "_line", "_lines", "_read", "broken", "over", "rest", "trailers")

    def __init__(self) -> None:
        self.over = False
        self.broken = ""
        self.trailers: Headers = ()
        self.rest = b""
        self._left = 0  # bytes left of the current chunk
        self._line = b""  # the beginning of an incomplete line
        self._lines: bytearray | None = None  # the trailer lines so far
        # The method that reads the next line. A checkpoint holds its name, so that the recorder can continue
        # in the middle of a body after a crash.
        self._read = Chunked._size

    def feed(self, data: bytes, start: int) -> tuple[bytes, int]:
        parts: list[bytes] = []
        position, end = start, len(data)
        while position < end and not (self.over or self.broken):
            if self._left:
                part = data[position : position + self._left]
                parts.append(part)
                self._left -= len(part)
                position += len(part)
                # The usual case: the data holds the complete chunk, with its line end.
                if not self._left and data.startswith(b"\r\n", position):
                    position += 2
                    self._read = Chunked._size
                continue
            # The usual case: the data holds the complete line with the size.
            size = None if self._line or self._read != Chunked._size else _CHUNK_LINE.match(data, position)
            if size is not None and size.end() - position <= LINE_LIMIT_BYTES:
                self._begin(int(size[1], 16))
                position = size.end()
            else:
                position = self._take_line(data, position)
        return (parts[0] if len(parts) == 1 else b"".join(parts)), position

    def missing(self) -> str:
        return "the last chunk of the body is missing"

    def _take_line(self, data: bytes, start: int) -> int:
        """Read a size line, a chunk's line end or a trailer line; return the index of the first byte not
        read."""
        stop = data.find(b"\n", start) + 1
        if stop and not self._line:
            line = data[start:stop]
        else:
            self._line += data[start : stop or len(data)]
            if not stop and len(self._line) <= LINE_LIMIT_BYTES:
                return len(data)
            line, self._line = self._line, b""
        if len(line) > LINE_LIMIT_BYTES:
            self._break("a line of the chunked body is too long", line)
        else:
            self._read(self, line)
        return stop or len(data)

    def _size(self, line: bytes) -> None:
        """Read the line before a chunk."""
        match = _CHUNK_LINE.fullmatch(line)
        if match is None:
            self._break("the size of a chunk cannot be read", line)
        else:
            self._begin(int(match[1], 16))

    def _begin(self, size: int) -> None:
        """Begin a chunk of ``size`` bytes; after a size of 0 only the trailers follow."""
        self._left = size
        self._read = Chunked._after_chunk if self._left else Chunked._trailer

    def _after_chunk(self, line: bytes) -> None:
        """Read the line end after a chunk."""
        if line in _BLANK:
            self._read = Chunked._size
        else:
            self._break("a chunk is longer than its size says", line)

    def _trailer(self, line: bytes) -> None:
        """Read a line of the trailers, or the blank line after them."""
        lines = self._lines = bytearray() if self._lines is None else self._lines
        lines += line
        if len(lines) > LIMIT_BYTES:
            self._break("the trailers are too long", bytes(lines))
        elif line in _BLANK:
            fields = trailers(bytes(lines))
            if isinstance(fields, str):
                self._break(fields, bytes(lines))
            else:
                self.trailers = fields
                self.over = True

    def _break(self, why: str, line: bytes) -> None:
        self.broken = why
        self.rest = line


NO_BODY: Final = Length(0)


def request_body(framing: Framing) -> Body | str:
    """Return the body, perhaps empty, that follows a request's head. A text says why the end of the body
    cannot be known."""
    coding = framing.get("transfer-encoding")
    if coding is None:
        return _known_length(framing) or NO_BODY
    if _is_chunked(coding):
        return Chunked()
    return "the request has a transfer coding but is not chunked: its end cannot be known"


def response_body(method: str, status: int, framing: Framing) -> Body | str:
    """Return the body of a final response to a ``method`` request.

    A text says why the end of the body cannot be known.
    """
    if method == "HEAD" or status in (204, 304):
        return NO_BODY
    coding = framing.get("transfer-encoding")
    if coding is None:
        return _known_length(framing) or UntilClose()
    return Chunked() if _is_chunked(coding) else UntilClose()


def _is_chunked(coding: str) -> bool:
    return coding.rpartition(",")[2].strip(" \t").lower() == "chunked"


def _known_length(framing: Framing) -> Length | str | None:
    """Return the body that Content-Length announces, or a text that says why the field is invalid.

    ``None`` means that there is no such field.
    """
    value = framing.get("content-length")
    if value is None:
        return None
    if _is_length(value):
        return Length(int(value))
    # The same number twice is accepted, because some proxies join fields.
    first_value, *other_values = {member.strip(" \t") for member in value.split(",")}
    if other_values:
        return "Content-Length says different things"
    return Length(int(first_value)) if _is_length(first_value) else "Content-Length is not a number of bytes"


def _is_length(value: str) -> bool:
    # The only decimal characters of Latin-1 are the ASCII digits.
    return value.isdecimal() and len(value) <= _LENGTH_DIGITS
