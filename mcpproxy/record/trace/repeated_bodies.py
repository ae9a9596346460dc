"""Record only the new parts of a body that repeats an earlier body.

Every request to a language model repeats the conversation so far. The record of such a body lacks the
repeated bytes, and its member ``again`` says where they are: ``{"frame": SEQ, "runs": [[AT, FROM, BYTES],
...]}``. For each run, ``BYTES`` bytes at the offset ``AT`` of the complete body equal those at the offset
``FROM`` of the complete body of frame ``SEQ``. So no byte is lost, and the recording grows only by the new
parts.

The reader of a file remembers the same earlier bodies as its writer did, so it has every body that a record
names. A record names only frames of its own file.
"""

from typing import Final, cast

from mcpproxy.base.slotted import slotted
from mcpproxy.judge.session.frame import CLIENT, Frame
from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.record.trace.members import NotARecordError, list_member, member, object_line

_MOST_BODIES: Final = 16
_MOST_BYTES: Final = 32 << 20
"""How many bodies are remembered, and how many bytes they may have together."""

_LONGEST: Final = 64 << 20
"""The longest body, in bytes; a damaged recording may claim to have a longer one."""

UNKNOWN_BODY: Final = "a body that repeats an unknown one"
"""Why a record is refused that names a body which the reader does not remember."""


@slotted(frozen=True)
class Shortened:
    """A frame without the bytes that it repeats. ``base`` is the number of the frame that has them.

    Each of ``runs`` is: the offset in the complete body, the offset in the body of ``base``, and the length.
    """

    frame: Frame
    base: int
    runs: tuple[tuple[int, int, int], ...]

    def whole(self, base: bytes) -> Frame:
        """Return the frame with its complete body; ``base`` is the complete body of the frame that it
        repeats.

        Raises:
            NotARecordError: the runs do not fit.
        """
        short, frame = self.frame.raw, self.frame
        parts: list[bytes] = []
        length = copied = 0
        for at, start, size in self.runs:
            fresh = at - length
            if fresh < 0 or copied + fresh > len(short) or start + size > len(base) or at + size > _LONGEST:
                raise NotARecordError("a body that repeats what is not there")
            parts += (short[copied : copied + fresh], base[start : start + size])
            copied += fresh
            length = at + size
        return Frame(
            frame.seq,
            frame.sender,
            b"".join((*parts, short[copied:])),
            frame.observed_at_ns,
            exchange=frame.exchange,
            connection=frame.connection,
        )

    @property
    def again(self) -> bytes:
        """The member ``again``, with its name, as JSON."""
        return b'"again":' + object_line({"frame": self.base, "runs": self.runs})[:-1]


def shortened_of(members: JSONObject, frame: Frame) -> Shortened:
    """Return a frame that was read without the repeated bytes, and its member ``again``.

    Raises:
        NotARecordError: the member is not valid.
    """
    again = cast("JSONObject", member(members, "again", dict))
    runs: list[tuple[int, int, int]] = []
    for run in cast("list[list[object]]", list_member(again, "runs", list)):
        match run:
            case [int(at), int(start), int(size)] if min(at, start, size) >= 0:
                runs.append((at, start, size))
            case _:
                raise NotARecordError("a body that repeats nothing")
    base = member(again, "frame", int)
    if not base < frame.seq:
        raise NotARecordError("a body that repeats a later one")
    return Shortened(frame, base, tuple(runs))


class EarlierBodies:
    """The complete bodies of the latest requests in a file, by the numbers of their frames."""

    def __init__(self) -> None:
        self._bodies: dict[int, bytes] = {}
        self._bytes = 0

    def __contains__(self, seq: int) -> bool:
        return seq in self._bodies

    def whole(self, record: Frame | Shortened) -> Frame:
        """Return the next frame of the file with its complete body, and remember the body.

        Raises:
            NotARecordError: the frame repeats a body that is not remembered, or bytes that this body lacks.
        """
        if isinstance(record, Shortened):
            if (base := self._bodies.get(record.base)) is None:
                raise NotARecordError(UNKNOWN_BODY)
            frame = record.whole(base)
            self.put(frame, record.base)
            return frame
        self.put(record)
        return record

    def put(self, frame: Frame, base: int = 0) -> None:
        """Remember the body of a frame, if a later body may repeat it.

        It takes the place of the body of frame ``base``, which it repeats; 0 if it repeats none.
        """
        if not may_be_repeated(frame):
            return
        self._forget(base)
        self._bodies[frame.seq] = frame.raw
        self._bytes += len(frame.raw)
        while len(self._bodies) > _MOST_BODIES or self._bytes > _MOST_BYTES:
            self._forget(next(iter(self._bodies)))

    def _forget(self, seq: int) -> None:
        self._bytes -= len(self._bodies.pop(seq, b""))


def may_be_repeated(frame: Frame) -> bool:
    """Whether a frame is the complete body of a request as the client sent it, and looks like a JSON
    object."""
    is_whole = frame.terminated and not (frame.continues or frame.by_proxy or frame.fault)
    return is_whole and frame.sender == CLIENT and frame.exchange > 0 and frame.raw[:1] == b"{"
