"""The crash buffer: the chunk that the relay may have forwarded but has not journaled yet.

A chunk is forwarded before it is journaled. If the relay were killed between the two, the recording would
lack a chunk that the peer has received. Therefore the relay first copies every chunk, and every remainder of
one that did not fit before, into a small file that is mapped into memory. This costs a copy and no system
call, and the page cache keeps the file whatever happens to the process. A recorder that finds the relay gone
adds the chunk to the trace.

The file is called ``hand`` and lies in the journal's folder. Beside the chunk stands the place in the journal
where its record will begin. If the journal ends at that place or before it, the chunk was not journaled.
Nothing else is journaled between the two, so at most one chunk can be missing. The place is written last: a
relay that is killed while it fills the file has not forwarded anything yet.

While the disk takes no records, the relay counts the bytes that are lost. The counts are in the file too, so
that they survive a kill.
"""

from __future__ import annotations

import errno
import mmap
import os
import struct

from mcpproxy.relay.journal import CLIENT, GAP, OWN, SERVER, STDERR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from mcpproxy.relay.journal import Journal

NAME: Final = "hand"

_LOST: Final = struct.Struct("<QQQQ")  # bytes of client, server and stderr; the journal's end then
_CHUNK: Final = struct.Struct("<IBxxxIQQ")  # length, kind, connection, time; where its record will begin
_CHUNK_AT: Final = _LOST.size
_BYTES_AT: Final = _CHUNK_AT + _CHUNK.size
_PLACE_AT: Final = _BYTES_AT - 8
_NOWHERE: Final = bytes(8)

LONGEST_BYTES: Final = 16 << 20
"""Longer than any chunk; a larger file was not written by the relay."""


class CrashBuffer:
    """The writing end of the crash buffer, used by the relay.

    Args:
        journal: where the chunks are journaled afterwards.
        chunk_bytes: how long a chunk may be.

    Raises:
        OSError: the file cannot be made, or the disk has no room for it.
    """

    __slots__ = ("_journal", "_memory")

    def __init__(self, journal: Journal, chunk_bytes: int) -> None:
        self._journal = journal
        size = _BYTES_AT + chunk_bytes
        fd = os.open(os.path.join(journal.folder, NAME), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            # Written, not just resized: storing into a hole of a file on a full disk kills the process.
            if os.write(fd, bytes(size)) != size:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._memory = mmap.mmap(fd, size)
        finally:
            os.close(fd)
        journal.on_loss = self._lose

    def store(self, kind: int, at_ns: int, chunk: bytes | memoryview, connection: int = 0) -> None:
        """Keep ``chunk`` until it is journaled. No other record may be journaled before it."""
        memory = self._memory
        size = len(chunk)
        memory[_BYTES_AT : _BYTES_AT + size] = chunk
        # The fields are stored in order, so the place comes last.
        _CHUNK.pack_into(memory, _CHUNK_AT, size, kind, connection, at_ns, self._journal.position)

    def clear(self) -> None:
        """Forget the chunk: nothing of it was forwarded, or it is counted as lost."""
        self._memory[_PLACE_AT:_BYTES_AT] = _NOWHERE

    def _lose(self, client: int, server: int, stderr: int) -> None:
        """Keep how many bytes are lost by now, including the chunk in the buffer."""
        self._memory[:_CHUNK_AT] = _LOST.pack(client, server, stderr, self._journal.position)
        self.clear()


def left_records(folder: str, end: int) -> list[tuple[int, bytes, int, int]]:
    """What a relay that is gone left in its crash buffer, as journal records: (kind, payload, time,
    connection).

    ``end`` is the position behind the last whole record of the journal. Empty if nothing is missing there.
    """
    # Not at the top: the relay only writes.
    from mcpproxy.base import files

    try:
        content = files.read(os.path.join(folder, NAME), LONGEST_BYTES)
    except OSError:
        return []
    if len(content) < _BYTES_AT:
        return []
    found: list[tuple[int, bytes, int, int]] = []
    size, kind, connection, at_ns, place = _CHUNK.unpack_from(content, _CHUNK_AT)
    client, server, stderr, lost_place = _LOST.unpack_from(content)
    if lost_place >= end and client + server + stderr:
        counts = f'"client":{client},"server":{server},"stderr":{stderr}'
        gap = f'{{"reason":"the journal could not be written",{counts}}}'
        found.append((GAP, gap.encode(), at_ns, 0))
    is_chunk = kind in (CLIENT, SERVER, STDERR, OWN) and _BYTES_AT + size <= len(content)
    if place >= end and is_chunk:
        found.append((kind, content[_BYTES_AT : _BYTES_AT + size], at_ns, connection))
    return found
