"""The chunk in hand: what the relay has read and may have forwarded, but not yet journaled.

A chunk is forwarded before the journal is touched, so a relay killed between the two would take its
last chunk with it, although the peer has it. Therefore the chunk is first laid into a small file that
is mapped into memory. That costs a copy and no call; the page cache keeps it whatever happens to the
process. A recorder that finds the relay gone files the chunk if it is younger than the whole journal.

The file is ``hand`` in the journal's folder: one journal record, never more than a chunk.
"""

from __future__ import annotations

import errno
import mmap
import os

from mcpproxy.relay.journal import HEAD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

NAME: Final = "hand"

LONGEST_BYTES: Final = 16 << 20
"""More than any chunk has; a file that is larger is not the relay's."""


class Hand:
    """The relay's end.

    Args:
        folder: the journal's folder.
        chunk_bytes: how much is read at once.

    Raises:
        OSError: the file cannot be made, or the disk has no room for it.
    """

    __slots__ = ("_memory",)

    def __init__(self, folder: str, chunk_bytes: int) -> None:
        size = HEAD.size + chunk_bytes
        fd = os.open(os.path.join(folder, NAME), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            # Written, not just sized: storing into a hole when the disk is full would be the end of us.
            if os.write(fd, bytes(size)) != size:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._memory = mmap.mmap(fd, size)
        finally:
            os.close(fd)

    def take(self, kind: int, at_ns: int, chunk: bytes, connection: int = 0) -> None:
        """Hold ``chunk`` until the next one."""
        memory = self._memory
        memory[HEAD.size : HEAD.size + len(chunk)] = chunk
        HEAD.pack_into(memory, 0, len(chunk), kind, connection, at_ns)


def held(folder: str) -> tuple[int, int, bytes, int] | None:
    """What a relay that is gone had in its hand last: kind, time, bytes, connection; ``None`` if nothing."""
    # Not at the top: the relay only writes.
    from mcpproxy import files

    try:
        content = files.read(os.path.join(folder, NAME), LONGEST_BYTES)
    except OSError:
        return None
    if len(content) < HEAD.size:
        return None
    size, kind, connection, at_ns = HEAD.unpack_from(content)
    if not at_ns or HEAD.size + size > len(content):
        return None
    return kind, at_ns, content[HEAD.size : HEAD.size + size], connection
