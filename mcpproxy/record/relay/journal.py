"""The journal: the relay's append-only copy of what it forwarded, kept until the recorder has read it.

A journal is the folder ``<trace>.journal`` beside its trace. It holds segments, which are files of records
named by an eight-digit number from ``00000001`` on, and the ``checkpoint``, which says from where recording
continues after the recorder was killed. A segment is deleted when its records are in the trace. If the folder
remains after its session, the next command that opens the trace completes the trace from the journal.

The relay locks the file ``relay`` in the folder for as long as it may write. A later process that is to
complete the trace or delete the journal tests that lock first, because process ids say nothing in another
container.

A record is a fixed head and a payload. The head is little-endian: payload length (u32), kind (u8),
three zero bytes, connection (u32, 0 on stdio), time (u64, ``now_ns``). Nothing in a record is
escaped or terminated. If a segment ends inside a record, a kill or a full disk has interrupted the write.

Over HTTP every record belongs to a connection, numbered from 1, except START, SIGNAL, GAP, EXIT and a NOTE
about the proxy itself. The first record of a connection is CONNECT; a CLIENT_EOF and a SERVER_EOF are its
last.

The writer below is part of the data path, so once it is constructed it never raises, and it never waits. It
counts the bytes that it cannot write, and appends a GAP record with the counts when it can write again.
"""

from __future__ import annotations

import os
import sys
import time
from _struct import Struct  # the module struct only gives it its public name

from mcpproxy.base.json_string import quoted

# The import of typing alone would double the start-up time of a wrapped server (12 ms, CPython 3.11).
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

if sys.platform == "win32":
    # Before Python 3.13, time.monotonic only counts ticks of 16 ms there.
    _OFFSET_NS: Final = time.monotonic_ns() - time.perf_counter_ns()

    def now_ns() -> int:
        """Return the time by the clock of the journal, in nanoseconds: the monotonic clock."""
        return _OFFSET_NS + time.perf_counter_ns()
else:
    now_ns = time.monotonic_ns


HEAD: Final = Struct("<IBxxxIQ")
"""The head of a record: payload length, kind, connection, time."""

# The kinds of records.
START: Final = 0  # payload: JSON, the trace's header and settings of the recorder; the first record
CLIENT: Final = 1  # payload: bytes that the client sent; on POSIX stdio, those that the server's pipe took
SERVER: Final = 2  # payload: bytes that the server sent; on POSIX stdio, those that the client's pipe took
STDERR: Final = 3  # payload: bytes of the server's stderr
CLIENT_EOF: Final = 4
SERVER_EOF: Final = 5
STDERR_EOF: Final = 6
SIGNAL: Final = 7  # payload: the signal's name in ASCII, received by mcpproxy
GAP: Final = 8  # payload: JSON, {"reason": str} and how many bytes of "client", "server", "stderr" are lost
EXIT: Final = 9  # payload: JSON, {"ending": str, "code": int|null, "signal": int|null}, and if the server was
# not started, "reason": str; the last record

# Only on stdio with a gate, which decides whether messages pass, for those that it refuses. Each holds
# complete lines, and never comes in the middle of another line.
CLIENT_REFUSED: Final = 10  # payload: a line that the client sent and the server did not get
SERVER_REFUSED: Final = 11  # payload: a line that the server sent and the client did not get
CLIENT_OWN: Final = 12  # payload: mcpproxy's answer to the server in the client's place
SERVER_OWN: Final = 13  # payload: mcpproxy's answer to the client in the server's place

# Only with fault rules, by which the user asks for changes of the traffic. The payload of each is a line of
# JSON, {"rule": str, "action": str, "number": int} and over HTTP perhaps "part" and "more", and then bytes.
# On stdio, a NOTE without a connection says that a rule closed a stream, or ended the server.
CLIENT_ALTERED: Final = 20  # bytes of the client that the server did not get, or got changed or late
SERVER_ALTERED: Final = 21  # bytes of the server that the client did not get, or got changed or late
CLIENT_GIVEN: Final = 22  # what mcpproxy wrote to the server in the client's place
SERVER_GIVEN: Final = 23  # what mcpproxy wrote to the client in the server's place

# Only over HTTP, except NOTE. There CLIENT and SERVER hold the bytes that the peer sent, before the proxy
# changes any.
CONNECT: Final = 16  # payload: JSON, {"client": "ip:port", "upstream": "host:port"}
OWN: Final = 17  # payload: bytes that the proxy sent to the client in the server's place
NOTE: Final = 18  # payload: JSON, {"what": str, "why": str}: what mcpproxy did, and why
OPAQUE: Final = 19  # from here on the connection is not HTTP any more

_STREAM_OF: Final = {
    **dict.fromkeys((CLIENT, CLIENT_REFUSED, CLIENT_OWN, CLIENT_ALTERED, CLIENT_GIVEN), CLIENT),
    **dict.fromkeys((SERVER, SERVER_REFUSED, SERVER_OWN, SERVER_ALTERED, SERVER_GIVEN, OWN), SERVER),
    STDERR: STDERR,
}
"""The kind of a record -> the stream under which its bytes are counted if they are lost."""

RESET: Final = b"reset"
"""Payload of an EOF record: the peer reset the connection. The payload is empty after an orderly end."""

DROPPED: Final = b"closed"
"""Payload of an EOF record: the proxy, not the peer, closed the connection. A NOTE or the other side's EOF
record says why."""

WAKE: Final = b"\0"
"""The byte that the relay writes into the wake pipe to wake the recorder."""

UNWRITTEN: Final = b"\1"
"""The byte that the relay writes into the wake pipe when it exits, if there are records that it could not
write to the disk. They follow in the pipe."""

SEGMENT_BYTES: Final = 8 << 20
"""A segment that has grown to this size is followed by the next one."""

LIMIT_BYTES: Final = 1 << 30
"""About how many bytes all segments together may have. Traffic beyond that is forwarded, and recorded as a
gap."""

RETRY_NS: Final = 1_000_000_000
"""How long after a failure the journal waits before it tries to write again."""

DEFAULT_RESERVE: Final = -1
"""Stands for the usual reserve: 1 GiB, or a tenth of a disk of less than 10 GiB."""

HELD_RECORDS: Final = 32
"""How many records may wait in memory while the disk is full. CLIENT, SERVER and STDERR never wait: their
bytes are counted as lost, and so are the peers' bytes in the records beyond this number. EXIT waits even
beyond it."""


RELAY_LOCK: Final = "relay"
"""The name of the file that the relay locks. The file is empty."""


def folder(trace: str) -> str:
    """Return the folder of the journal that belongs to the trace file ``trace``."""
    return trace + ".journal"


def segment_name(number: int) -> str:
    return f"{number:08d}"


def position(segment: int, offset: int) -> int:
    """Return a place in the journal as one number, which grows from record to record."""
    return segment << 32 | offset


def shortage(path: str, reserve: int) -> str:
    """Return a clause that says that the disk of ``path`` has less than ``reserve`` bytes free (or than
    ``DEFAULT_RESERVE`` stands for); empty if it has as many, or if that cannot be found out."""
    try:
        if sys.platform == "win32":
            import shutil

            total, _, free = shutil.disk_usage(path)
        else:
            disk = os.statvfs(path)
            total, free = disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize
    except OSError:
        return ""
    if reserve == DEFAULT_RESERVE:
        reserve = min(1 << 30, total // 10)
    is_short = total > 0 and free < reserve
    return f"less than {_size_words(reserve)} is free on the disk, see --reserve" if is_short else ""


def _size_words(size: int) -> str:
    for unit, shift in (("TiB", 40), ("GiB", 30), ("MiB", 20)):
        if size >> shift:
            return f"{size / (1 << shift):.3g} {unit}"
    return f"{size} bytes"


class Journal:
    """The writing end of a journal. Each record, or over HTTP each turn of the loop, is one write into
    the page cache.

    The constructor makes the folder and the first segment, and writes the START record.

    Args:
        trace: path of the trace file that the journal belongs to.
        start: payload of the START record.
        at_ns: time of the START record, from ``now_ns``.
        reserve: how many bytes of the disk must stay free, ``DEFAULT_RESERVE``, or 0 for none. The first
            record after START, and each further segment, is written only if so many bytes are free.

    Raises:
        FileExistsError: the folder exists already and belongs to another session.
        OSError: the folder, the segment or the first record could not be written; nothing is left behind.
    """

    def __init__(self, trace: str, start: bytes, at_ns: int, reserve: int = 0) -> None:
        self.folder = folder(trace)
        self._reserve = reserve
        # Called with a line for the user once when loss begins, and once when it ends.
        self.on_notice: Callable[[str], None] = ignore
        # Called with the number of bytes of the client, the server and stderr that are lost so far.
        self.on_loss: Callable[[int, int, int], None] = ignore
        self._number = self._oldest = 1  # of the current segment, and of the oldest one that may exist
        self._size = 0  # bytes in the current segment
        self._lost: dict[int, int] | None = None  # bytes per stream; ``None`` while all records are written
        self._reason = ""  # why records are lost
        self._held: list[tuple[int, int, bytes, int]] = []  # the records that wait for the disk
        self._retry_ns = 0  # when to try to write again
        self._fd = self._lock_fd = -1
        os.mkdir(self.folder, 0o700)
        try:
            self._lock_fd = _make_locked_file(os.path.join(self.folder, RELAY_LOCK))
            self._fd = _make_file(self._path(1))
            if (failure := self._write_record(START, at_ns, start, 0)) is not None:
                raise failure
            if reserve and shortage(self.folder, reserve):
                self._size = SEGMENT_BYTES  # the next record needs the next segment
        except OSError:
            self.discard()
            raise

    @property
    def position(self) -> int:
        """Where the next record will begin; see the function ``position``."""
        number, size = self._number, self._size
        return (number + 1) << 32 if size >= SEGMENT_BYTES else number << 32 | size

    def append(self, kind: int, at_ns: int, payload: bytes | memoryview = b"", connection: int = 0) -> None:
        """Append a record. If it cannot be written, count its bytes as lost, or hold it; never raise."""
        if self._lost is None:
            if (failure := self._write_record(kind, at_ns, payload, connection)) is None:
                return
            self.interrupt(failure.strerror or "the journal could not be written", at_ns + RETRY_NS)
        elif at_ns >= self._retry_ns:
            self._retry_ns = at_ns + RETRY_NS
            if self._recover(at_ns) and self._write_record(kind, at_ns, payload, connection) is None:
                return
        self._count_lost(kind, at_ns, payload, connection)

    def interrupt(self, reason: str, retry_ns: int) -> None:
        """Count records as lost until the time ``retry_ns``, and then try to write again.

        If records are being counted as lost already, this changes nothing.
        """
        if self._lost is None:
            self._lost = {CLIENT: 0, SERVER: 0, STDERR: 0}
            self._reason = reason
            self._retry_ns = retry_ns
            self.on_notice(f"recording interrupted ({reason}); the session goes on")

    def append_all(self, records: memoryview) -> int:
        """Append complete records in one write. Return how many bytes of complete records were written; the
        caller gives the other records to ``append``."""
        if self._lost is not None:
            return 0
        try:
            if self._size >= SEGMENT_BYTES:
                self._rotate()
            written = os.write(self._fd, records)
        except OSError:
            return 0
        self._size += written
        if written == len(records):
            return written
        complete = 0
        while written >= (end := complete + HEAD.size) and written >= (
            end := end + HEAD.unpack_from(records, complete)[0]
        ):
            complete = end
        self._end_segment(written - complete)
        return complete

    def close(self, at_ns: int) -> bytes:
        """Write the records that wait, and close the segment. Return the records that could not be written,
        as bytes; none from a second call."""
        unwritten = b""
        if self._fd < 0:
            return unwritten
        if self._lost is not None and not self._recover(at_ns):
            if any(self._lost.values()):
                gap = self._gap_payload()
                unwritten = HEAD.pack(len(gap), GAP, 0, at_ns) + gap
            for kind, when_ns, payload, connection in self._held:
                unwritten += HEAD.pack(len(payload), kind, connection, when_ns) + payload
        os.close(self._fd)
        self._fd = -1  # a file that is opened later may get the same descriptor
        self._unlock()
        return unwritten

    def discard(self) -> None:
        """Delete a journal in which nothing was recorded."""
        try:
            if self._fd >= 0:
                os.close(self._fd)
                os.unlink(self._path(1))
            if self._lock_fd >= 0:
                os.unlink(os.path.join(self.folder, RELAY_LOCK))
                self._unlock()
            os.rmdir(self.folder)
        except OSError:
            pass

    def _unlock(self) -> None:
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    def _write_record(
        self, kind: int, at_ns: int, payload: bytes | memoryview, connection: int
    ) -> OSError | None:
        """Write one record and return ``None``; or return the error, and leave at most a part of the record
        at the end of the segment."""
        try:
            if self._size >= SEGMENT_BYTES:
                self._rotate()
            written = _write(self._fd, (HEAD.pack(len(payload), kind, connection, at_ns), payload))
        except OSError as error:
            return error  # nothing of the record was written
        if written == HEAD.size + len(payload):
            self._size += written
            return None
        self._end_segment(written)
        return no_room()

    def _end_segment(self, incomplete_bytes: int) -> None:
        """Remove an incomplete record of ``incomplete_bytes``, and continue in the next segment: the recorder
        may have read these bytes already, so nothing may follow them in this segment."""
        self._size = SEGMENT_BYTES
        try:
            os.ftruncate(self._fd, os.lseek(self._fd, 0, os.SEEK_END) - incomplete_bytes)
        except OSError:
            pass

    def _rotate(self) -> None:
        """Begin the next segment.

        Raises:
            OSError: the segment cannot be made, the disk has less free than its reserve, or all segments
            together are too large.
        """
        while self._oldest < self._number and not os.path.exists(self._path(self._oldest)):
            self._oldest += 1  # the recorder deletes segments in order
        if (self._number + 1 - self._oldest) * SEGMENT_BYTES >= LIMIT_BYTES:
            raise no_room("the recorder is too far behind")
        if self._reserve and (fact := shortage(self.folder, self._reserve)):
            raise no_room(fact)
        fd = _make_file(self._path(self._number + 1))
        os.close(self._fd)
        self._fd, self._number, self._size = fd, self._number + 1, 0

    def _count_lost(self, kind: int, at_ns: int, payload: bytes | memoryview, connection: int) -> None:
        """Hold a record that cannot be written, or count the bytes of a peer in it as lost. A record that is
        not held and has none (a NOTE, for example) is forgotten."""
        assert self._lost is not None
        if kind not in self._lost and (len(self._held) < HELD_RECORDS or kind == EXIT):
            self._held.append((kind, at_ns, bytes(payload), connection))
        elif (stream := _STREAM_OF.get(kind)) is not None:
            self._lost[stream] += len(payload)
            self.on_loss(self._lost[CLIENT], self._lost[SERVER], self._lost[STDERR])

    def _recover(self, at_ns: int) -> bool:
        """Write the GAP record and the records that wait; return whether all of them were written."""
        assert self._lost is not None
        if any(self._lost.values()):
            if self._write_record(GAP, at_ns, self._gap_payload(), 0) is not None:
                return False
            self._lost = dict.fromkeys(self._lost, 0)
        while self._held:
            if self._write_record(*self._held[0]) is not None:
                return False
            del self._held[0]
        self._lost = None
        self.on_notice("recording again; the trace marks what is missing")
        return True

    def _gap_payload(self) -> bytes:
        """Return the payload of a GAP record with the lost bytes."""
        assert self._lost is not None
        client, server, stderr = self._lost[CLIENT], self._lost[SERVER], self._lost[STDERR]
        gap = f'{{"reason":{quoted(self._reason)},"client":{client},"server":{server},"stderr":{stderr}}}'
        return gap.encode("utf-8", "replace")

    def _path(self, number: int) -> str:
        return os.path.join(self.folder, segment_name(number))


def _make_file(path: str) -> int:
    # O_BINARY exists only on Windows. Descriptors that os.open returns are never inherited.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    return os.open(path, flags, 0o600)


def _make_locked_file(path: str) -> int:
    """Make the file ``path`` and lock it until it is closed or this process ends; -1 if the system has no
    such locks (Windows).

    It is a lock of POSIX, which a forked recorder does not inherit. It also needs no further import, unlike
    the other kind of lock (``flock``).

    Raises:
        OSError: the file cannot be made.
    """
    if sys.platform == "win32":
        return -1
    fd = _make_file(path)
    try:
        os.lockf(fd, os.F_TLOCK, 0)
    except OSError:
        pass  # a file system without locks: there, the process id decides
    return fd


def no_room(reason: str = "") -> OSError:
    """Return the error of a full disk."""
    import errno  # imported late, so that the server's start does not wait for the import

    return OSError(errno.ENOSPC, reason or os.strerror(errno.ENOSPC))


# Windows has no ``writev``.
def _write_joined(fd: int, parts: tuple[bytes, bytes | memoryview]) -> int:
    return os.write(fd, b"".join(parts))


_write: Callable[[int, tuple[bytes, bytes | memoryview]], int] = getattr(os, "writev", _write_joined)


def ignore(*arguments: object) -> None:
    """Do nothing: the callback until another is set."""
