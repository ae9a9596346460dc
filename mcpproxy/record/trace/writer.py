"""The only writer of traces. It appends records, several with each system call.

A full disk raises no exception: the records stay pending, ``fault`` says why, and the next ``flush`` tries
again.
"""

import os
from collections.abc import Callable, Sequence
from typing import Final

from mcpproxy.base.files import open_binary
from mcpproxy.errors import TraceError

BATCH_BYTES: Final = 256 << 10
"""Records are collected up to this size before they are written."""

_BLOCK_BYTES: Final = 64 << 10
"""How many bytes are searched for a line feed at a time."""


class TraceWriter:
    """Appends to the trace at ``path``, which is created on the first write, readable by its owner only.

    ``resume_at`` continues an existing trace and discards its content beyond that size. Without
    ``resume_at``, an existing file is never changed.
    """

    def __init__(self, path: str, resume_at: int | None = None) -> None:
        self.path = path
        self.size = resume_at or 0
        """The size of the file in bytes. After a successful flush the file ends with a complete record."""
        self.fault: str | None = None
        """Why the last flush failed, by the system's message or by ``shortage``; ``None`` if it succeeded."""
        self.shortage: Callable[[], str] | None = None
        """Returns why nothing may be written although the disk has room; empty if writing is allowed. It is
        always allowed at the beginning of a file."""
        self.is_short = False
        """Whether ``shortage`` was the reason for the last failure."""
        self._is_new = resume_at is None
        self._fd = -1
        self._files: list[tuple[str, int, os.stat_result]] = []  # the previous files, with their sizes
        self._pending: list[bytes] = []
        self._later: list[tuple[str, list[bytes]]] = []  # the next files, and their records
        self._pending_bytes = 0

    @property
    def has_file(self) -> bool:
        """Whether this writer has made the file at ``path``, or continues it."""
        return not self._is_new

    @property
    def position(self) -> int:
        """The size of the last file in bytes, including pending records."""
        return sum(map(len, self._later[-1][1])) if self._later else self.size + self._pending_bytes

    def continue_in(self, path: str) -> None:
        """Write later records to the new file ``path``. Pending records still go to the current file."""
        self._later.append((path, []))

    def write(self, record: bytes) -> None:
        """Add one record, which is in the file after the next successful flush.

        Raises:
            TraceError: the file already exists, and is not to be continued.
        """
        (self._later[-1][1] if self._later else self._pending).append(record)
        size = self._pending_bytes = self._pending_bytes + len(record)
        if size >= BATCH_BYTES and not self.fault:
            self.flush()

    def write_large(self, parts: Sequence[bytes]) -> None:
        """Like ``write``, for a record in several parts, which are written without copying them.

        Raises:
            TraceError: the file already exists, and is not to be continued.
        """
        if self._pending and not self.fault:
            self.flush()
        size = sum(map(len, parts))
        (self._later[-1][1] if self._later else self._pending).extend(parts)
        self._pending_bytes += size
        if not self.fault:
            self.flush()

    def flush(self) -> bool:
        """Write the pending records. Return whether all of them are written.

        Raises:
            TraceError: the file already exists, and is not to be continued.
        """
        while self._later:
            if not self._flush_file():
                return False
            if self._fd >= 0:
                self._files.append((self.path, self.size, os.fstat(self._fd)))
            self.close()
            self.path, self._pending = self._later.pop(0)
            self.size, self._is_new = 0, True
        return self._flush_file()

    def _flush_file(self) -> bool:
        """Write the pending records of the current file. Return whether all of them are written."""
        parts = self._pending
        if self._pending_bytes < 2 * BATCH_BYTES:
            parts = [b"".join(parts)]
        remaining = memoryview(b"")
        written = 0
        self.fault = None
        self.is_short = False
        if self.shortage is not None and self.size and self._pending and (why := self.shortage()):
            self.fault, self.is_short = why, True
            return False
        try:
            fd = self._open_file()
            for part in parts:
                remaining = memoryview(part)
                while remaining:
                    count = os.write(fd, remaining)
                    self.size += count
                    self._pending_bytes -= count
                    remaining = remaining[count:]
                written += 1
        except FileExistsError:
            raise TraceError(self.path, None, "exists already", "name another file") from None
        except OSError as fault:
            self.fault = fault.strerror or str(fault)
            # Of the part that failed, only ``remaining`` is still to be written.
            unwritten = parts[written + 1 :] if remaining else parts[written:]
            self._pending = [bytes(remaining), *unwritten] if remaining else unwritten
            return False
        self._pending = []
        return True

    def rewind(self, reserve: int = 0) -> int:
        """Discard the pending records, and at least the last ``reserve`` bytes of the file.

        Return the new size. Use this if a disk stays full. Afterwards the file ends with a complete record.

        Raises:
            OSError: the file cannot be shortened.
        """
        self._pending = []
        self._later = []
        self._pending_bytes = 0
        self.fault = None
        if self._fd >= 0:
            self.size = self._last_boundary(max(0, self.size - reserve))
            os.ftruncate(self._fd, self.size)
        return self.size

    def outside_changes(self) -> str:
        """Describe, as a sentence fragment, what other programs did to the files; empty if they did nothing.

        A program may delete, move or shorten a file while it is written, and no write fails because of
        that. Shipping and deleting a file is no such change. Call this method before the last file
        is closed.
        """
        changes = [
            f"{os.path.basename(file[0])} {what}"
            for file in self._files[:1] + self._files[1 + self._count_shipped() :]
            if (what := _outside_change(*file))
        ]
        if self._fd >= 0 and (what := _outside_change(self.path, self.size, os.fstat(self._fd))):
            changes.append(f"{os.path.basename(self.path)} {what}" if self._files else what)
        return ", ".join(changes)

    def _count_shipped(self) -> int:
        """Return how many files after the first were shipped and deleted."""
        if not self._files or not os.path.lexists(self._files[0][0] + ".shipped"):
            return 0
        from mcpproxy.record.trace.shipped_files import read_shipped  # few recordings have a note

        shipped = read_shipped(self._files[0][0])
        names = [os.path.basename(path) for path, _, _ in self._files]
        return names.index(shipped.last) if shipped is not None and shipped.last in names else 0

    def close(self) -> None:
        """Close the file. Pending records are lost."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open_file(self) -> int:
        if self._fd < 0:
            create = os.O_CREAT | os.O_EXCL if self._is_new else os.O_CREAT
            self._fd = open_binary(self.path, os.O_RDWR | os.O_APPEND | create)
            if not self._is_new:
                os.ftruncate(self._fd, self.size)
            self._is_new = False
        return self._fd

    def _last_boundary(self, end: int) -> int:
        """Return the end of the last record that ends at ``end`` or before it, 0 if none does.

        A record has a line feed only at its end.
        """
        while end > 0:
            start = max(0, end - _BLOCK_BYTES)
            os.lseek(self._fd, start, os.SEEK_SET)
            block = os.read(self._fd, end - start)
            if (line_feed := block.rfind(b"\n")) >= 0:
                return start + line_feed + 1
            end = start
        return 0


def _outside_change(path: str, size: int, written: os.stat_result) -> str:
    """Describe what other programs did to ``path``, to which ``size`` bytes were written.

    ``written`` is the status of the file, taken while it was open for writing.
    """
    try:
        current = os.stat(path)
    except FileNotFoundError:
        if written.st_nlink:
            return "is not there any more: it was moved or deleted while the session ran"
        return "was deleted while the session ran: nothing of it is left"
    except OSError as fault:
        return f"cannot be found any more ({fault.strerror})"
    if not os.path.samestat(written, current):
        return "was replaced by another file while the session ran"
    if current.st_size < size:
        return "was cut short while the session ran: what is missing is lost"
    return ""
