"""The crash buffer: what the relay may have forwarded but has not journaled yet.

A chunk is forwarded before it is journaled. If the relay were killed between the two, the recording would
lack a chunk that the peer has received. Therefore the relay first copies every chunk (and the remainder of a
chunk that the peer accepted only in part) into a small file that is mapped into memory. This costs a copy and
no system call, and the file's content survives a kill of the process. The recorder, the process that makes
the trace, then adds the chunk.

The file is called ``hand`` and is in the folder of the journal (the relay's copy of the traffic). It also
holds the position in the journal at which the chunk's record will begin. If the journal ends at that position
or before it, the chunk was not journaled. No other record is written between storing a chunk and journaling
it, so at most one chunk can be missing. The position is written last, so a chunk that was stored only in
part, and not forwarded yet, does not count.

Over HTTP, where a turn of the loop serves many connections, the buffer holds all records of the turn, as they
will be in the journal, and they are journaled in one write (``TurnBuffer``).

While the disk accepts no records, the relay counts the bytes that are lost. The file holds these counts too,
so that they survive a kill.
"""

from __future__ import annotations

import mmap
import os
import struct

from mcpproxy.record.relay.journal import CLIENT, GAP, HEAD, SERVER, STDERR, ignore, no_room, now_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

    from mcpproxy.record.relay.journal import Journal

NAME: Final = "hand"

# Lost bytes of client, server and stderr; the position at which the journal ended when they were counted.
_LOST: Final = struct.Struct("<QQQQ")
# Length, kind, connection and time of the chunk; the position at which its record will begin.
_CHUNK: Final = struct.Struct("=IBxxxIQQ")
# Offsets in the file: the counts of lost bytes come first.
_CHUNK_AT: Final = _LOST.size
_BYTES_AT: Final = _CHUNK_AT + _CHUNK.size
_POSITION_AT: Final = _BYTES_AT - 8
_NO_POSITION: Final = bytes(8)

_RECORDS: Final = 255
"""In the place of a chunk's kind: the bytes are records. The position is that of the first one."""

_HEAD_BYTES: Final = HEAD.size

LONGEST_BYTES: Final = 16 << 20
"""Longer than any chunk; a larger file was not written by the relay."""


class CrashBuffer:
    """The writing end of the crash buffer, used by the relay.

    Args:
        journal: the journal that the chunks are appended to afterwards.
        chunk_bytes: the greatest length of a chunk.

    Raises:
        OSError: the file cannot be made, or the disk has no room for it.
    """

    __slots__ = ("_chunk", "_journal", "_memory", "_room")

    def __init__(self, journal: Journal, chunk_bytes: int) -> None:
        self._journal = journal
        size = _BYTES_AT + chunk_bytes
        fd = os.open(os.path.join(journal.folder, NAME), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            # Write zeros, do not just set the size: if the disk fills up, storing into a sparse file kills
            # the process.
            if os.write(fd, bytes(size)) != size:
                raise no_room()
            self._memory = mmap.mmap(fd, size)
        finally:
            os.close(fd)
        self._room = memoryview(self._memory)[_BYTES_AT:]
        self._chunk = self._room[:0]  # the chunk that ``read`` returned last
        journal.on_loss = self._store_losses

    def read(self, fd: int) -> memoryview:
        """Read a chunk from ``fd`` to the place where ``store`` keeps it. The next call overwrites it.

        Until ``store`` is called for the chunk, the fields are those of the chunk before, which is journaled
        or cleared by now, so a kill in between leaves no record.

        Raises:
            OSError: as from ``os.read``.
        """
        self._chunk = self._room[: os.readv(fd, (self._room,))]
        return self._chunk

    def store(self, kind: int, at_ns: int, chunk: bytes | memoryview) -> None:
        """Keep ``chunk`` until it is journaled. No other record may be journaled before it."""
        memory = self._memory
        size = len(chunk)
        if chunk is not self._chunk:  # a chunk from ``read`` is there already
            memory[_BYTES_AT : _BYTES_AT + size] = chunk
        # The fields are stored in order, so the position comes last.
        _CHUNK.pack_into(memory, _CHUNK_AT, size, kind, 0, at_ns, self._journal.position)

    def clear(self) -> None:
        """Forget the content: nothing of it was forwarded, or all of it is journaled or counted as lost."""
        self._memory[_POSITION_AT:_BYTES_AT] = _NO_POSITION

    def _store_losses(self, client: int, server: int, stderr: int) -> None:
        """Store how many bytes are lost so far, including the chunk in the buffer."""
        self._memory[:_CHUNK_AT] = _LOST.pack(client, server, stderr, self._journal.position)
        self.clear()

    def close(self) -> None:
        """Unmap the file: the mapping holds a descriptor, and Windows does not delete a mapped file."""
        self._journal.on_loss = ignore
        self._chunk.release()
        self._room.release()
        self._memory.close()


class TurnBuffer(CrashBuffer):
    """The crash buffer of a loop that writes to the journal once in a turn.

    A record is appended before its bytes are forwarded. Until the end of the turn it is only in mapped
    memory, which takes no system call and survives a kill. There is room for one record with a payload of
    ``payload_bytes``, or for several shorter ones.
    """

    __slots__ = ("_end", "_room_bytes", "_size_field")

    def __init__(self, journal: Journal, payload_bytes: int) -> None:
        self._room_bytes = _HEAD_BYTES + payload_bytes
        super().__init__(journal, self._room_bytes)
        self._size_field = memoryview(self._memory)[_CHUNK_AT : _CHUNK_AT + 4].cast("I")
        self._end = 0  # where the records of this turn end

    def append(self, kind: int, at_ns: int, payload: bytes, connection: int) -> None:
        """Append a record. If it does not fit, the records of the turn are journaled first.

        A record whose payload has more than ``payload_bytes`` is journaled at once.
        """
        start, size = self._end, len(payload)
        begin = start + _HEAD_BYTES
        end = begin + size
        if end > self._room_bytes:
            if start:
                self.flush()
                self.append(kind, at_ns, payload, connection)
            else:
                self._journal.append(kind, at_ns, payload, connection)
            return
        room = self._room
        if not start:  # first reset the size, which is still that of the turn before
            _CHUNK.pack_into(self._memory, _CHUNK_AT, 0, _RECORDS, 0, at_ns, self._journal.position)
        HEAD.pack_into(room, start, size, kind, connection, at_ns)
        room[begin:end] = payload
        self._size_field[0] = self._end = end  # last, and in one store

    def flush(self) -> None:
        """Journal the records of the turn."""
        if self._end:
            with self._room[: self._end] as records:  # released even if a traceback refers to it
                written = self._journal.append_all(records)
            self._append_each(written)

    def lose(self, reason: str) -> None:
        """Count the records of the turn as lost; those of the next turn are journaled again."""
        self._journal.interrupt(reason, now_ns())
        self._append_each(0)

    def _append_each(self, begin: int) -> None:
        """Journal the records from offset ``begin`` on one by one, so that lost records are counted."""
        while begin < self._end:
            size, kind, connection, at_ns = HEAD.unpack_from(self._room, begin)
            position = self._journal.position - begin  # where the first would be, if this one comes next
            _CHUNK.pack_into(self._memory, _CHUNK_AT, self._end, _RECORDS, 0, at_ns, position)
            begin += _HEAD_BYTES + size
            self._journal.append(kind, at_ns, bytes(self._room[begin - size : begin]), connection)
        self.clear()
        self._end = 0

    def close(self) -> None:
        """Journal the remaining records, and unmap the file."""
        self.flush()
        self._size_field.release()
        super().close()


def left_records(folder: str, journal_end: int) -> list[tuple[int, bytes, int, int]]:
    """Return the records that a killed relay left in the crash buffer and did not journal.

    Each record is (kind, payload, time in ns, connection). A GAP record comes first if the buffer has counts
    of lost bytes that the journal does not have. The list is empty if the buffer cannot be read or is too
    short. ``journal_end`` is the position in the journal after its last complete record.
    """
    # Imported late, because the relay itself does not read the file.
    from mcpproxy.base import files

    try:
        content = files.read(os.path.join(folder, NAME), LONGEST_BYTES)
    except OSError:
        return []
    if len(content) < _BYTES_AT:
        return []
    records: list[tuple[int, bytes, int, int]] = []
    size, kind, connection, at_ns, position = _CHUNK.unpack_from(content, _CHUNK_AT)
    client, server, stderr, lost_position = _LOST.unpack_from(content)
    if lost_position >= journal_end and client + server + stderr:
        counts = f'"client":{client},"server":{server},"stderr":{stderr}'
        gap = f'{{"reason":"the journal could not be written",{counts}}}'
        records.append((GAP, gap.encode(), at_ns, 0))
    stored = content[_BYTES_AT : _BYTES_AT + size]
    if kind == _RECORDS and position + size > journal_end:
        records += _from_journal_end(stored, position, journal_end)
    elif position >= journal_end and kind in (CLIENT, SERVER, STDERR) and len(stored) == size:
        records.append((kind, stored, at_ns, connection))
    return records


def _from_journal_end(
    stored: bytes, position: int, journal_end: int
) -> Iterator[tuple[int, bytes, int, int]]:
    """Yield the records in ``stored`` from ``journal_end`` on; the first of all begins at ``position``."""
    begin = 0
    while begin + _HEAD_BYTES <= len(stored):
        size, kind, connection, at_ns = HEAD.unpack_from(stored, begin)
        payload = stored[begin + _HEAD_BYTES : begin + _HEAD_BYTES + size]
        if len(payload) == size and position + begin >= journal_end:
            yield kind, payload, at_ns, connection
        begin += _HEAD_BYTES + size
