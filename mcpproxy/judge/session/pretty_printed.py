"""Join the lines of a pretty-printed message, so that it is reported once and not once for each line.

A peer that writes one message on several lines breaks the framing, because no line is a message by itself.
Lines that may be parts of one message are held until that message is complete, until the lines cannot form a
message, or until a limit is reached. Only the judge waits: the lines have already been forwarded.
"""

from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.session.frame import Frame
from mcpproxy.protocol.jsonrpc import ABSENT, Batch, Flaw, Malformed, Message, Notification
from mcpproxy.protocol.jsontext import unclosed
from mcpproxy.protocol.message_parts import as_object, singles

MAX_BYTES: Final = 1 << 20
MAX_LINES: Final = 65_536
MAX_ATTEMPTS: Final = 256
"""After the first line, lines are held within these limits for bytes, lines and earlier parsings."""

_CLOSING_BRACKETS: Final = {b"{": b"}", b"[": b"]"}


@slotted()
class SplitMessage:
    """The lines of one sender that may together be one message.

    ``opening`` is the first line without spaces at its end, ``size`` the number of bytes in ``frames``, and
    ``attempts`` the number of times that the lines were parsed.
    """

    opening: bytes = b""
    frames: list[Frame] = field(default_factory=list[Frame])
    size: int = 0
    attempts: int = 0

    def hold(self, frame: Frame) -> bool:
        """Hold ``frame`` if it begins or may continue a split message; return whether it is held."""
        message = frame.message
        if self.frames:
            is_within_limits = (
                self.size + len(frame.raw) <= MAX_BYTES
                and len(self.frames) < MAX_LINES
                and self.attempts <= MAX_ATTEMPTS
            )
            if not is_within_limits or not isinstance(message, Malformed):
                return False
        elif not (
            isinstance(message, Malformed)
            and message.flaw is Flaw.NOT_JSON
            and frame.raw.lstrip()[:1] in (b"{", b"[")
            and unclosed(frame.raw)
        ):
            return False
        else:
            self.opening = frame.raw.rstrip()
        self.frames.append(frame)
        self.size += len(frame.raw)
        return True

    def whole(self) -> Frame | None:
        """Return a frame with the object or array that the held lines form; ``None`` if they form none yet.

        The frame equals the last held frame, but has the bytes of all. If the object is not a message, the
        frame's message is ``Malformed`` with a value: programs print log entries on several lines, too.
        """
        if len(self.frames) < 2 or not self.frames[-1].raw.rstrip().endswith((b"}", b"]")):
            return None
        self.attempts += 1
        last, raw = self.frames[-1], b"\n".join(frame.raw for frame in self.frames)
        joined = Frame(last.seq, last.sender, raw, last.observed_at_ns, last.terminated, refused=last.refused)
        message = joined.message
        return None if isinstance(message, Malformed) and message.value is ABSENT else joined

    def is_printed(self) -> bool:
        """Whether the held lines are a value that a program printed in its own notation, not in JSON.

        Node's ``console.log`` prints objects and arrays in the layout of JSON: a bracket, indented content,
        and the closing bracket below the first. A value that contains ``jsonrpc`` was meant as a message.
        """
        first, last = self.opening, self.frames[-1].raw.rstrip()
        if len(self.frames) < 2 or len(last) != len(first):  # decides most cases, without copying bytes
            return False
        indent, closing = first[:-1], _CLOSING_BRACKETS.get(first[-1:])
        if indent.strip() or closing is None or last != indent + closing:
            return False
        deeper = (indent + b" ", indent + b"\t")
        return all(
            (not frame.raw.strip() or frame.raw.startswith(deeper)) and b"jsonrpc" not in frame.raw
            for frame in self.frames[1:-1]
        )

    def release(self) -> list[Frame]:
        """Return the held lines, and forget them."""
        frames, self.frames, self.opening, self.size, self.attempts = self.frames, [], b"", 0, 0
        return frames


def is_meant(message: Message) -> bool:
    """Whether a value on several lines was meant as a message, not as an entry of a log.

    A log entry may have members such as ``method`` and ``result``. So without ``jsonrpc``, only a request or
    an answer with an id counts as a message.
    """
    if isinstance(message, Batch):
        return any(is_meant(single) for single in singles(message))
    value = as_object(message.value)
    if value is None or "jsonrpc" in value:
        return value is not None
    return "id" in value and not isinstance(message, Malformed | Notification)
