"""Parse one side of an HTTP/1.x connection: heads and bodies in turn, as long as its bytes are HTTP.

The base class here parses what requests and responses have in common. Its two subclasses in ``http1`` read
the heads. Bytes that are not HTTP are called opaque: they are passed on without being interpreted.
"""

import re
from abc import ABC, abstractmethod
from typing import Final

from mcpproxy.record.framing.bodies import Body
from mcpproxy.record.framing.heads import LIMIT_BYTES
from mcpproxy.record.framing.pieces import BodyEnd, BodyPart, Broken, Cut, OpaqueBytes, Piece, Side

_NOT_LINE_END: Final = re.compile(rb"[^\r\n]")
_SEEN_BYTES: Final = 5
"""How many bytes of a head ``ConnectionSide.refusal`` needs to see."""


class ConnectionSide(ABC):
    """Parses the bytes that the side ``of`` sent, and appends the heads, contents and ends to ``pieces``."""

    __slots__ = ("_body", "_opaque", "at_ns", "broken", "exchange", "held", "of", "pieces")

    def __init__(self, of: Side, pieces: list[Piece]) -> None:
        self.of: Side = of
        self.pieces = pieces
        self.exchange = 0  # the number of the exchange (request and response) whose message is being read
        self.held = bytearray()  # the beginning of an incomplete head
        self.at_ns = 0  # the time of the latest chunk
        self.broken = False  # bytes came that are not HTTP
        self._body: Body | None = None  # the body that is being read
        self._opaque = False  # the bytes from here on are not interpreted

    @abstractmethod
    def refusal(self, first: bytes) -> str:
        """Return why no head can begin with these one to five bytes; empty if a head can."""

    @abstractmethod
    def read_head(self, raw: bytes) -> None:
        """Parse a complete head, its blank line included."""

    def feed(self, data: bytes, at_ns: int) -> None:
        """Parse the next chunk of the side's bytes."""
        self.at_ns = at_ns
        position, end = 0, len(data)
        while position < end:
            if self._body is not None:
                position = self._take_content(self._body, data, position)
            elif not self._opaque:
                position = self.take_head(data, position)
            else:
                self.pieces.append(OpaqueBytes(self.of, data[position:], at_ns))
                return

    def take_head(self, data: bytes, start: int) -> int:
        """Read a head, if ``data`` completes one; return the index of the first byte not read."""
        held_bytes = len(self.held)
        if not held_bytes:
            if data[start] in b"\r\n":
                # Old peers send line ends between messages (RFC 9112, section 2.2).
                first_content = _NOT_LINE_END.search(data, start)
                return first_content.start() if first_content else len(data)
            if why := self.refusal(data[start : start + _SEEN_BYTES]):
                self.break_off(why, data[start:])
                return len(data)
            if end := _head_end(data, start):
                self._take_whole_head(data[start:end])
                return end
        self.held += data[start:]
        if held_bytes < _SEEN_BYTES and (why := self.refusal(bytes(self.held[:_SEEN_BYTES]))):
            self.break_off(why, bytes(self.held))
            return len(data)
        # The first bytes of the blank line may have been held already.
        if end := _head_end(self.held, max(0, held_bytes - 2)):
            raw = bytes(self.held[:end])
            self.held = bytearray()
            self._take_whole_head(raw)
            return start + len(raw) - held_bytes
        self.hold(b"")  # nothing more to hold; this only tests the length
        return len(data)

    def hold(self, data: bytes) -> None:
        """Add ``data`` to the held beginning of a head. A head that gets too long is reported as not HTTP."""
        self.held += data
        if len(self.held) > LIMIT_BYTES:
            self._take_whole_head(bytes(self.held))

    def begin_body(self, body: Body | str) -> None:
        """Begin to read ``body`` after a head. A text says why it is unreadable; parsing then stops."""
        if isinstance(body, str):
            self._add_cut(self.of, body)
            self.break_off(body, b"")
        elif body.over:
            self.pieces.append(BodyEnd(self.exchange, self.of, self.at_ns, ()))
        else:
            self._body = body

    def break_off(self, why: str, data: bytes) -> None:
        """Report that the bytes from ``data`` on are not HTTP."""
        self.pieces.append(Broken(self.of, why, data, self.at_ns))
        self.held = bytearray()
        self.broken = self._opaque = True

    def end(self, by: Side, how: str, reset: bool, at_ns: int) -> None:
        """End this side; ``by`` and ``how`` say who ended the connection first, and how.

        A ``reset`` cuts the body that is being read, even if nothing of it seems to be missing.
        """
        self.at_ns = at_ns
        if self._body is not None:
            missing = self._body.missing()
            if missing or reset:
                self._add_cut(by, f"{how}; {missing}" if missing else how)
            else:
                self._body = None
                self.pieces.append(BodyEnd(self.exchange, self.of, at_ns, ()))
        elif self.held:
            self.break_off(f"{how} in the middle of a head", bytes(self.held))
        self._opaque = True

    def stop(self, by: Side, why: str, at_ns: int) -> None:
        """Stop reading HTTP: the bytes that are held, and all later bytes, are opaque.

        The body that is being read, if there is one, is cut by the side ``by``, for the reason ``why``.
        """
        if self.held:
            self.pieces.append(OpaqueBytes(self.of, bytes(self.held), self.at_ns))
            self.held = bytearray()
        self.at_ns = at_ns
        if self._body is not None:
            self._add_cut(by, why)
        self._opaque = True

    def _take_whole_head(self, raw: bytes) -> None:
        if len(raw) > LIMIT_BYTES:
            self.break_off(f"a head is longer than {LIMIT_BYTES >> 10} KiB", raw)
        else:
            self.read_head(raw)

    def _take_content(self, body: Body, data: bytes, start: int) -> int:
        """Feed ``data`` from ``start`` on to ``body``; return the index of the first byte not read."""
        content, position = body.feed(data, start)
        if content:
            self.pieces.append(BodyPart(self.exchange, self.of, content, self.at_ns))
        if body.over:
            self._body = None
            self.pieces.append(BodyEnd(self.exchange, self.of, self.at_ns, body.trailers))
        elif body.broken:
            self._add_cut(self.of, body.broken)
            self.break_off(body.broken, body.rest)
        return position

    def _add_cut(self, by: Side, why: str) -> None:
        """End the current message as incomplete."""
        self._body = None
        self.pieces.append(Cut(self.exchange, self.of, by, self.at_ns, why))


def _head_end(data: bytes | bytearray, start: int) -> int:
    """Return where a head ends, blank line included; 0 while it is incomplete. Search from ``start`` on."""
    crlf = data.find(b"\n\r\n", start)
    # If there is a blank line with CRLF, search for a bare one only before it: a long body may follow.
    bare_lf = data.find(b"\n\n", start, crlf + 3 if crlf >= 0 else len(data))
    if bare_lf >= 0:
        return bare_lf + 2
    return crlf + 3 if crlf >= 0 else 0
