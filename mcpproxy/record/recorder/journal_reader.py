"""Read a journal while it grows, and delete the segments whose records are in the trace.

The journal (the relay's copy of the traffic) consists of segments, which are files of records. A segment may
end with an incomplete record, because the relay was killed or is still writing. While the relay runs, the
reader waits for the end of the record; if there is a next segment, it skips the record.

Two more files in the folder matter here: the checkpoint says from where recording continues after a kill, and
the crash buffer keeps what the relay has not journaled yet. The others are locks, and the draft of a
checkpoint."""

import os
import sys
from contextlib import suppress
from dataclasses import replace
from typing import Final, TypeAlias

from mcpproxy.base.files import Folder
from mcpproxy.errors import TraceError
from mcpproxy.record.framing.lines import LIMIT_BYTES
from mcpproxy.record.recorder import checkpoint, lock
from mcpproxy.record.recorder.checkpoint import Checkpoint, write_checkpoint
from mcpproxy.record.relay import crash_buffer, journal

_READ_BYTES: Final = 64 << 10
"""How many bytes of a segment are read at a time, except of a longer record."""

_LONGEST_BYTES: Final = LIMIT_BYTES + (16 << 20)
"""The longest record: a refused line is one record, and the length of lines is limited."""

Entry: TypeAlias = tuple[int, bytes, int, int]
"""One record of the journal: ``(kind, payload, at_ns, connection)``; ``at_ns`` is by the relay's clock."""


class JournalReader:
    """Reads each record of the journal ``folder`` once, starting at a checkpoint."""

    def __init__(self, folder: str, start: Checkpoint | None = None) -> None:
        start = start or Checkpoint()
        self.folder = folder
        self.segment = start.segment
        self._first = start.segment
        """The segment of the last checkpoint; older segments are deleted, or are in ``_undeleted``."""
        self._undeleted: list[int] = []
        """The older segments that could not be deleted."""
        self._fd = -1
        self._kept_folder: Folder | None = None
        self._read_to = start.offset
        """Up to where the segment was read, in bytes."""
        self._buffer = b""
        """Bytes that were read and are the beginning of an incomplete record."""
        self._is_relay_gone = False
        self._unwritten = b""
        self._end = journal.position(start.segment, start.offset)
        """The position after the last complete record."""
        self._is_done = False
        self._missing_bytes = 0
        """How many bytes the incomplete record still lacks."""
        self._torn_size = 0
        """The size of the segment if a power cut left zeros instead of records from ``offset`` on; else 0."""

    @property
    def offset(self) -> int:
        """Where in the segment the next record starts, in bytes."""
        return self._read_to - len(self._buffer)

    @property
    def read_segments(self) -> int:
        """How many segments have been read to their end and are to be deleted at the next checkpoint."""
        return self.segment - self._first

    def read(self) -> list[Entry]:
        """Return the next records, about 64 KiB or one that is longer; empty if there are none at the moment.

        Raises:
            OSError: a segment cannot be read.
            TraceError: a record claims to be longer than the limit.
        """
        while True:
            if entries := self._parse_records(self._read_some()):
                return entries
            if not self.has_more():
                return self._last_entries()

    def end(self, unwritten: bytes = b"") -> None:
        """Note that the relay is gone. After the segments, ``read`` returns the last records of the relay.

        These are ``unwritten``, the records that the relay could not write to the disk. If that is empty, the
        last records are those in the crash buffer, which a killed relay had not journaled."""
        self._is_relay_gone = True
        self._unwritten = unwritten

    def _last_entries(self) -> list[Entry]:
        """Return the last records of a relay that is gone (see ``end``); later calls return none."""
        if not self._is_relay_gone:
            return []
        self._is_relay_gone = False  # so that the entries are returned only once
        self._is_done = True
        self._buffer = b""  # a record torn by the kill; its chunk is in the crash buffer
        if self._unwritten:
            return self._parse_records(self._unwritten)
        return crash_buffer.left_records(self.folder, self._end)

    def checkpoint_and_clear(self, unplaced: Checkpoint) -> None:
        """Write a checkpoint at the current position, then delete the segments before that position.

        Call this when all records that were read are in the trace. Once the journal was read to its end, the
        method does nothing: a checkpoint cannot say that the chunk in the crash buffer is recorded, and the
        whole journal is deleted soon.

        Args:
            unplaced: the checkpoint without its position.

        Raises:
            OSError: the checkpoint could not be written. No segment is deleted.
        """
        if self._is_done:
            return
        write_checkpoint(self.folder, replace(unplaced, segment=self.segment, offset=self.offset))
        due = (*self._undeleted, *range(self._first, self.segment))
        self._undeleted = [segment for segment in due if not self._delete_segment(segment)]
        self._first = self.segment

    def clear(self) -> None:
        """Delete every segment that was read, even if its records are not in the trace."""
        self.close()
        for segment in (*self._undeleted, *range(self._first, self.segment + 1)):
            self._delete_segment(segment)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        if self._kept_folder is not None:
            self._kept_folder.close()
            self._kept_folder = None

    @property
    def _opened_folder(self) -> Folder:
        """The journal's folder, which is opened once and stays open until ``close``."""
        if self._kept_folder is None:
            self._kept_folder = Folder(self.folder)
        return self._kept_folder

    def _has_segment(self, segment: int) -> bool:
        try:
            return self._opened_folder.has(journal.segment_name(segment))
        except OSError:
            return False

    def _delete_segment(self, segment: int) -> bool:
        """Delete a segment. Return whether it is gone: on Windows, one that is open elsewhere stays."""
        try:
            self._opened_folder.unlink(journal.segment_name(segment))
        except FileNotFoundError:
            pass
        except OSError:
            return False
        return True

    def _read_some(self) -> bytes:
        """Read the next bytes of the current segment; empty if it has no more at the moment."""
        if self._torn_size:
            return b""
        if self._fd < 0:
            try:
                self._fd = self._opened_folder.open(journal.segment_name(self.segment))
            except FileNotFoundError:
                return b""
            os.lseek(self._fd, self._read_to, os.SEEK_SET)
        wanted = _READ_BYTES
        if self._missing_bytes > wanted:  # read all of it at once, because every read copies the buffer
            wanted = min(self._missing_bytes, max(wanted, os.fstat(self._fd).st_size - self._read_to))
        if sys.platform == "win32":
            # The C library of Wine reads no more from a file whose end it has read, until a seek.
            os.lseek(self._fd, self._read_to, os.SEEK_SET)
        data = os.read(self._fd, wanted)
        self._read_to += len(data)
        return data

    def _parse_records(self, data: bytes) -> list[Entry]:
        """Return the complete records in the buffer and ``data``; keep the beginning of an incomplete one."""
        buffer = self._buffer + data if self._buffer else data
        head_size = journal.HEAD.size
        unpack = journal.HEAD.unpack_from
        entries: list[Entry] = []
        position = self._missing_bytes = 0
        end = len(buffer)
        while (start := position + head_size) <= end:
            length, kind, connection, at_ns = unpack(buffer, position)
            stop = start + length
            if stop > end:
                self._missing_bytes = stop - end
                if length > _LONGEST_BYTES:
                    segment = os.path.join(self.folder, journal.segment_name(self.segment))
                    fact = f"the journal is damaged: a record says that it has {length} bytes"
                    raise TraceError(segment, None, fact, "the trace is whole up to its end")
                break
            if not at_ns and not length and not kind:
                # No record is all zeros, but a power cut may leave zeros at the end of a file.
                self._torn_size = os.fstat(self._fd).st_size if self._fd >= 0 else end
                break
            entries.append((kind, buffer[start:stop], at_ns, connection))
            position = stop
        self._buffer = buffer[position:]
        if entries:
            self._end = journal.position(self.segment, self.offset)
        return entries

    def has_more(self) -> bool:
        """Whether ``read`` may return records now. At the end of a segment, this goes on to the next one."""
        if self._fd < 0:
            return self._has_segment(self.segment)
        # Look for the next segment first: once it exists, the relay does not write to this segment any more.
        has_next = self._has_segment(self.segment + 1)
        size = os.fstat(self._fd).st_size
        if self._torn_size and size > self._torn_size:  # the relay was still writing; no power cut
            self._read_to, self._buffer = self.offset, b""
            os.lseek(self._fd, self._read_to, os.SEEK_SET)
            self._torn_size = 0
        if size > self._read_to and not self._torn_size:
            return True
        if has_next:
            self.close()
            self.segment += 1
            self._read_to = self._missing_bytes = self._torn_size = 0
            self._buffer = b""
        return has_next

    def end_of_journal(self) -> tuple[int, int]:
        """Return the number of the newest segment and its size in bytes, 0 if that is not known.

        As a pair they grow; only an incomplete record is removed again from the end of a segment.
        """
        segment = self.segment
        while self._has_segment(segment + 1):
            segment += 1
        try:
            return segment, self._opened_folder.stat(journal.segment_name(segment)).st_size
        except OSError:
            return segment, 0


_OTHER_FILES: Final = frozenset(
    (checkpoint.NAME, checkpoint.DRAFT_NAME, lock.NAME, journal.RELAY_LOCK, crash_buffer.NAME)
)


def is_journal_file(name: str) -> bool:
    """Whether a file with this name is part of a journal."""
    return name in _OTHER_FILES or is_segment(name)


def is_segment(name: str) -> bool:
    """Whether ``name`` is the file name of a segment."""
    return len(name) == 8 and name.isascii() and name.isdigit()


def remove(folder: str) -> None:
    """Delete the files of a journal and its folder, and nothing else. A file that cannot be deleted stays."""
    try:
        opened_folder = Folder(folder)
        names = opened_folder.names()  # segments come before the checkpoint and the lock
    except OSError:
        return
    for name in filter(is_journal_file, names):
        with suppress(OSError):
            opened_folder.unlink(name)
    with suppress(OSError):
        os.rmdir(folder)
