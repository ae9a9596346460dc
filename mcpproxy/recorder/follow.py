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
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeAlias, cast

from mcpproxy.errors import TraceError
from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.recorder.payloads import terms_from
from mcpproxy.recorder.rotation import Rotation
from mcpproxy.relay import hand, journal

if TYPE_CHECKING:
    from mcpproxy.recorder.terms import Terms

_READ_BYTES: Final = 256 << 10
_BINARY: Final[int] = getattr(os, "O_BINARY", 0)
_CHECKPOINT: Final = "checkpoint"


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
    """The state of an HTTP assembly, see ``mcpproxy.recorder.frozen``.

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
    """Over HTTP, the state of all connections; see ``mcpproxy.recorder.frozen``."""
    long: Sequence[bytes | memoryview] = ()
    """The runs of bytes that belong to that state."""
    file: str = ""
    """The name of the file that is written, if it may not be the first."""
    rotation: Rotation | None = None
    terms: "Terms | None" = None
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
        return hand.held(self.folder, self._end)

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
        terms: "Terms | None" = None,
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
            _unlink(self._path(self._first))
            self._first += 1

    def clear(self) -> None:
        """Delete every segment that was read, filed or not."""
        self.close()
        for segment in range(self._first, self.segment + 1):
            _unlink(self._path(segment))

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _path(self, segment: int) -> str:
        return os.path.join(self.folder, journal.segment_name(segment))

    def _read_some(self) -> bytes:
        if self._fd < 0:
            try:
                self._fd = os.open(self._path(self.segment), os.O_RDONLY | _BINARY)
            except FileNotFoundError:
                return b""
            os.lseek(self._fd, self._read_to, os.SEEK_SET)
        data = os.read(self._fd, _READ_BYTES)
        self._read_to += len(data)
        return data

    def _parse(self, data: bytes) -> list[Entry]:
        buffer = self._buffer + data if self._buffer else data
        head_size = journal.HEAD.size
        unpack = journal.HEAD.unpack_from
        entries: list[Entry] = []
        at = 0
        end = len(buffer)
        while at + head_size <= end:
            length, kind, connection, at_ns = unpack(buffer, at)
            stop = at + head_size + length
            if stop > end:
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
            return os.path.exists(self._path(self.segment))
        # Asked in this order: the relay never touches a segment again once it has begun the next.
        has_next = os.path.exists(self._path(self.segment + 1))
        if os.fstat(self._fd).st_size > self._read_to:
            return True
        if has_next:
            self.close()
            self.segment += 1
            self._read_to = 0
            self._buffer = b""
        return has_next


def read_checkpoint(folder: str) -> Checkpoint | None:
    """The checkpoint of a journal, if it has one.

    Raises:
        TraceError: it is damaged.
        OSError: it cannot be read.
    """
    path = os.path.join(folder, _CHECKPOINT)
    try:
        with open(path, "rb") as file:
            members = cast("dict[str, Any]", json.loads(file.readline()))
            long = tuple(_exactly(file, int(size)) for size in members.get("long", ()))
        client, server, stderr = (
            Held(binascii.a2b_base64(raw, strict_mode=True), int(at_ns)) for raw, at_ns in members["held"]
        )
        return Checkpoint(
            int(members["segment"]),
            int(members["offset"]),
            int(members["trace_bytes"]),
            (client, server, stderr),
            members.get("assembly"),
            long,
            str(members.get("file", "")),
            Rotation(*map(int, members["rotation"])) if members.get("rotation") else None,
            terms_from(members),
        )
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise TraceError(
            path, None, "the checkpoint is damaged", "the trace is whole up to its last line"
        ) from None


def _exactly(file: BinaryIO, size: int) -> bytes:
    if size < 0 or len(data := file.read(size)) != size:
        raise ValueError(size)
    return data


def write_checkpoint(folder: str, checkpoint: Checkpoint) -> None:
    """Replace the checkpoint of a journal, all at once.

    Raises:
        OSError: it could not be written; the one before still stands.
    """
    members: dict[str, JSON] = {
        "segment": checkpoint.segment,
        "offset": checkpoint.offset,
        "trace_bytes": checkpoint.trace_bytes,
        "held": [[base64.b64encode(held.raw).decode("ascii"), held.at_ns] for held in checkpoint.held],
    }
    if checkpoint.assembly is not None:
        members["assembly"] = checkpoint.assembly
        members["long"] = [len(run) for run in checkpoint.long]
    if checkpoint.rotation is not None:
        members["file"] = checkpoint.file
        members["rotation"] = [checkpoint.rotation.file_bytes, checkpoint.rotation.file_ns]
    if checkpoint.terms is not None:
        members["judged_by"] = checkpoint.terms.to_json()
    path = os.path.join(folder, _CHECKPOINT)
    draft = path + ".new"
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _BINARY, 0o600)
    with open(fd, "wb") as file:
        file.write(json.dumps(members).encode("ascii") + b"\n")
        for run in checkpoint.long:
            file.write(run)
    os.replace(draft, path)


def remove(folder: str) -> None:
    """Delete a journal, whatever is left of it. What cannot be deleted stays."""
    try:
        names = sorted(os.listdir(folder))  # segments come before the checkpoint and the lock
    except OSError:
        return
    for name in names:
        _unlink(os.path.join(folder, name))
    try:
        os.rmdir(folder)
    except OSError:
        pass


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
