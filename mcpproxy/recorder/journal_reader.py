"""Follow a journal while it grows, and clear away what has been filed.

Whatever was left half written (the end of a segment whose relay was killed) is waited for while the
relay lives and passed over when the next segment shows that nothing will come.

The checkpoint says where to go on: every record before it is filed in the first ``trace_bytes`` bytes of
the trace, but for the beginnings of lines that were not over yet; those bytes it holds itself. So a
segment can go as soon as its records are filed, even when a peer leaves a line open for hours. It is a line
of JSON; over HTTP the bytes of what is open follow it as they are.
"""

import base64
import binascii
import errno
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeAlias, cast

from mcpproxy.base.files import Folder
from mcpproxy.errors import TraceError
from mcpproxy.framing.lines import LIMIT_BYTES
from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.recorder import lock
from mcpproxy.recorder.payloads import terms_from
from mcpproxy.recorder.rotation import Rotation
from mcpproxy.relay import crash_buffer, journal

if TYPE_CHECKING:
    from mcpproxy.ruleset.rule_options import RuleOptions

_READ_BYTES: Final = 256 << 10
_CHECKPOINT: Final = "checkpoint"
_DRAFT: Final = "checkpoint.new"

_LONGEST_BYTES: Final = LIMIT_BYTES + (16 << 20)
"""No record is longer: a line that is refused is held whole, up to the limit of lines."""
_STATE_BYTES: Final = 16 << 20
"""The JSON in a checkpoint is no longer; long runs of bytes stand behind it."""
_LONG_BYTES: Final = 4 << 10


Entry: TypeAlias = tuple[int, bytes, int, int]
"""One record of the journal: ``(kind, payload, at_ns, connection)``, its time on the relay's clock."""


@dataclass(frozen=True, slots=True)
class Held:
    """The beginning of a line that was not over at a checkpoint, and the time of its last chunk.

    Times are as in the trace: since the recording started.
    """

    raw: bytes
    at_ns: int


@dataclass(slots=True)
class Frozen:
    """The state of an HTTP assembly, see ``mcpproxy.recorder.checkpoint_state``.

    ``long`` are the runs of bytes that ``state`` names by their place.
    """

    state: JSON = None
    long: list[bytes | memoryview] = field(default_factory=list[bytes | memoryview])

    def release(self) -> None:
        """Let the assembly have its bytes back."""
        for run in self.long:
            if isinstance(run, memoryview):
                run.release()


NOTHING: Final = (Held(b"", 0), Held(b"", 0), Held(b"", 0))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where filing goes on: at ``offset`` of ``segment``, with the trace cut to ``trace_bytes``."""

    segment: int = 1
    offset: int = 0
    trace_bytes: int = 0
    held: tuple[Held, Held, Held] = NOTHING
    """For the client's stream, the server's, and the server's stderr."""
    assembly: JSON = None
    """Over HTTP, the state of all connections; see ``mcpproxy.recorder.checkpoint_state``."""
    long: Sequence[bytes | memoryview] = ()
    """The runs of bytes that belong to that state."""
    file: str = ""
    """The name of the file that is written, if it may not be the first."""
    rotation: Rotation | None = None
    terms: "RuleOptions | None" = None
    """By which rules the session is judged, if somebody said so."""


class JournalReader:
    """Reads the records of the journal ``folder`` from a checkpoint on, each once."""

    def __init__(self, folder: str, start: Checkpoint | None = None) -> None:
        start = start or Checkpoint()
        self.folder = folder
        self.segment = start.segment
        self._first = start.segment
        """The oldest segment that may still be there."""
        self._fd = -1
        self._read_to = start.offset
        self._buffer = b""
        self._is_relay_gone = False
        self._last_words = b""
        self._end = journal.position(start.segment, start.offset)
        """Behind the last whole record."""
        self._is_done = False
        self._place: Folder | None = None
        self._missing = 0
        """How much of a record that has begun is still to come."""
        self._torn_size = 0
        """The size of the segment, if it holds no record any more from ``offset`` on."""

    @property
    def offset(self) -> int:
        """Where in the segment the next record starts."""
        return self._read_to - len(self._buffer)

    @property
    def filed_segments(self) -> int:
        """How many segments have been read to their end and are still there."""
        return self.segment - self._first

    def read(self) -> list[Entry]:
        """The next records, up to about 256 KiB of them; none when there are no more now.

        Raises:
            OSError: a segment cannot be read.
            TraceError: a record says that it is longer than any can be.
        """
        while True:
            if entries := self._parse(self._read_some()):
                return entries
            if not self._has_more():
                return self._left_behind()

    def end(self, last_words: bytes = b"") -> None:
        """The relay is gone: after the segments comes what else it left.

        That is ``last_words``, records that the disk would not take, or what it had in its hand when it
        was killed and had not journaled.
        """
        self._is_relay_gone = True
        self._last_words = last_words

    def _left_behind(self) -> list[Entry]:
        if not self._is_relay_gone:
            return []
        self._is_relay_gone = False  # it is told once
        self._is_done = True
        self._buffer = b""  # a record torn by the kill: its chunk is the one in hand
        if self._last_words:
            return self._parse(self._last_words)
        return crash_buffer.held(self.folder, self._end)

    def has_more(self) -> bool:
        """Whether ``read`` may give something now."""
        return self._has_more()

    def clear_filed(
        self,
        trace_bytes: int,
        held: tuple[Held, Held, Held] = NOTHING,
        assembly: JSON = None,
        long: Sequence[bytes | memoryview] = (),
        file: str = "",
        rotation: Rotation | None = None,
        terms: "RuleOptions | None" = None,
    ) -> None:
        """All that was read is filed: keep a checkpoint here, then delete the segments before this one.

        Not when all is read that there will ever be: no checkpoint could say that what was in the relay's
        hand is filed, and the journal goes as a whole.

        Raises:
            OSError: the checkpoint could not be written; nothing is deleted then.
        """
        if self._is_done:
            return
        write_checkpoint(
            self.folder,
            Checkpoint(self.segment, self.offset, trace_bytes, held, assembly, long, file, rotation, terms),
        )
        while self._first < self.segment:
            self._unlink(self._first)
            self._first += 1

    def clear(self) -> None:
        """Delete every segment that was read, filed or not."""
        self.close()
        for segment in range(self._first, self.segment + 1):
            self._unlink(segment)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _in(self) -> Folder:
        """The journal's folder, as soon as it is there; held from then on."""
        if self._place is None:
            self._place = Folder(self.folder)
        return self._place

    def _has(self, segment: int) -> bool:
        try:
            return self._in().has(journal.segment_name(segment))
        except OSError:
            return False

    def _unlink(self, segment: int) -> None:
        try:
            self._in().unlink(journal.segment_name(segment))
        except OSError:
            pass

    def _read_some(self) -> bytes:
        if self._torn_size:
            return b""
        if self._fd < 0:
            try:
                self._fd = self._in().open(journal.segment_name(self.segment))
            except FileNotFoundError:
                return b""
            os.lseek(self._fd, self._read_to, os.SEEK_SET)
        wanted = _READ_BYTES
        if self._missing > wanted:  # at once, for what is there is copied with each read
            wanted = min(self._missing, max(wanted, os.fstat(self._fd).st_size - self._read_to))
        data = os.read(self._fd, wanted)
        self._read_to += len(data)
        return data

    def _parse(self, data: bytes) -> list[Entry]:
        buffer = self._buffer + data if self._buffer else data
        head_size = journal.HEAD.size
        unpack = journal.HEAD.unpack_from
        entries: list[Entry] = []
        at = self._missing = 0
        end = len(buffer)
        while at + head_size <= end:
            length, kind, connection, at_ns = unpack(buffer, at)
            stop = at + head_size + length
            if stop > end:
                self._missing = stop - end
                if length > _LONGEST_BYTES:
                    raise self._damaged(f"a record says that it has {length} bytes")
                break
            if not at_ns and not length and not kind:
                # Zeros: what a power cut leaves of a file that had grown. No record is like that.
                self._torn_size = os.fstat(self._fd).st_size if self._fd >= 0 else end
                break
            entries.append((kind, buffer[at + head_size : stop], at_ns, connection))
            at = stop
        self._buffer = buffer[at:]
        if entries:
            self._end = journal.position(self.segment, self.offset)
        return entries

    def _has_more(self) -> bool:
        """Look for more bytes, moving on to the next segment when this one is over."""
        if self._fd < 0:
            return self._has(self.segment)
        # Asked in this order: the relay never touches a segment again once it has begun the next.
        has_next = self._has(self.segment + 1)
        size = os.fstat(self._fd).st_size
        if self._torn_size and size > self._torn_size:  # it was still being written
            self._read_to, self._buffer = self.offset, b""
            os.lseek(self._fd, self._read_to, os.SEEK_SET)
            self._torn_size = 0
        if size > self._read_to and not self._torn_size:
            return True
        if has_next:
            self.close()
            self.segment += 1
            self._read_to = self._missing = self._torn_size = 0
            self._buffer = b""
        return has_next

    def _damaged(self, what: str) -> TraceError:
        where = os.path.join(self.folder, journal.segment_name(self.segment))
        return TraceError(where, None, f"the journal is damaged: {what}", "the trace is whole up to its end")


def read_checkpoint(folder: str) -> Checkpoint | None:
    """The checkpoint of a journal, if it has one.

    Raises:
        TraceError: it is damaged.
        OSError: it cannot be read.
    """
    try:
        with open(Folder(folder).open(_CHECKPOINT), "rb") as file:
            line = file.readline(_STATE_BYTES)
            members = cast("dict[str, Any]", json.loads(line if line.endswith(b"\n") else b""))
            left = os.fstat(file.fileno()).st_size - len(line)
            long = [_exactly(file, size, left) for size in members.get("long", ())]
        client, server, stderr = (Held(_run(raw, long), _count(at_ns)) for raw, at_ns in members["held"])
        return Checkpoint(
            _count(members["segment"]),
            _count(members["offset"]),
            _count(members["trace_bytes"]),
            (client, server, stderr),
            members.get("assembly"),
            tuple(long),
            str(members.get("file", "")),
            Rotation(*map(_count, members["rotation"])) if members.get("rotation") else None,
            terms_from(members),
        )
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        raise TraceError(
            os.path.join(folder, _CHECKPOINT),
            None,
            "the checkpoint is damaged",
            "the trace is whole up to its last line",
        ) from None


def _count(value: object) -> int:
    """A number of bytes, segments or nanoseconds, as such numbers are."""
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(value)
    return value


def _exactly(file: BinaryIO, size: object, left: int) -> bytes:
    size = _count(size)
    if size > left or len(data := file.read(size)) != size:
        raise ValueError(size)
    return data


def _run(raw: object, long: list[bytes]) -> bytes:
    """The beginning of a line: as base64, or the place of the run that it is."""
    if type(raw) is int:
        return long[_count(raw)]
    return binascii.a2b_base64(cast("str", raw), strict_mode=True)


def write_checkpoint(folder: str, checkpoint: Checkpoint) -> None:
    """Replace the checkpoint of a journal, all at once.

    Raises:
        OSError: it could not be written; the one before still stands.
    """
    long = list(checkpoint.long)
    held: list[JSON] = []
    for one in checkpoint.held:
        if len(one.raw) > _LONG_BYTES:
            long.append(one.raw)
            held.append([len(long) - 1, one.at_ns])
        else:
            held.append([base64.b64encode(one.raw).decode("ascii"), one.at_ns])
    members: dict[str, JSON] = {
        "segment": checkpoint.segment,
        "offset": checkpoint.offset,
        "trace_bytes": checkpoint.trace_bytes,
        "held": held,
        "long": [len(run) for run in long],
    }
    if checkpoint.assembly is not None:
        members["assembly"] = checkpoint.assembly
    if checkpoint.rotation is not None:
        members["file"] = checkpoint.file
        members["rotation"] = [checkpoint.rotation.file_bytes, checkpoint.rotation.file_ns]
    if checkpoint.terms is not None:
        members["judged_by"] = checkpoint.terms.to_json()
    line = json.dumps(members).encode("ascii") + b"\n"
    if len(line) > _STATE_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    place = Folder(folder)
    try:
        place.unlink(_DRAFT)  # of a recorder that was killed meanwhile
    except FileNotFoundError:
        pass
    with open(place.create(_DRAFT), "wb") as file:
        file.write(line)
        file.writelines(long)
    place.replace(_DRAFT, _CHECKPOINT)


_NAMES: Final = frozenset((_CHECKPOINT, _DRAFT, lock.NAME, crash_buffer.NAME))


def is_known(name: str) -> bool:
    """Whether a file of that name belongs to a journal."""
    return name in _NAMES or is_segment(name)


def is_segment(name: str) -> bool:
    return len(name) == 8 and name.isascii() and name.isdigit()


def remove(folder: str) -> None:
    """Delete a journal, whatever is left of it, and nothing else. What cannot be deleted stays."""
    try:
        place = Folder(folder)
        names = place.names()  # segments come before the checkpoint and the lock
    except OSError:
        return
    for name in filter(is_known, names):
        try:
            place.unlink(name)
        except OSError:
            pass
    try:
        os.rmdir(folder)
    except OSError:
        pass
