"""Index a trace by reading its lines, or load the index if it was saved.

Of a running recording, only the lines after the end of the index are read again.
"""

import math
import os
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

from mcpproxy.errors import TraceError
from mcpproxy.judge.session.frame import Gap, Note
from mcpproxy.read.view.call_reader import CallReader, Masking
from mcpproxy.read.view.calls import Progress
from mcpproxy.read.view.index.columns import Columns
from mcpproxy.read.view.index.scan import Scan
from mcpproxy.read.view.index.source import Source
from mcpproxy.record.trace.members import NotARecordError
from mcpproxy.record.trace.opened_trace import gap_note
from mcpproxy.record.trace.reader import Trace
from mcpproxy.record.trace.records import Continued, Record, undecoded_notes
from mcpproxy.record.trace.trace_file import ENDLESS, whole_before

if TYPE_CHECKING:
    from mcpproxy.read.view.rows.search import TextSearch

_KEPT_SEARCHES: Final = 8
"""How many searches for texts are kept with their results."""
SMALLEST_SAVED_BYTES: Final = 16 << 20
"""The index of a smaller recording is not saved: it can be read in less than half a second."""

_STEP_LINES: Final = 250
"""How many lines are read between two looks at the clock, in about a millisecond."""


class IndexedTrace:
    """``trace`` as it was last opened, with the index of its lines.

    ``running`` is whether the recording was still being written then. ``unread`` is the progress of ``read``;
    ``None`` if it has reached the end, or a line that is not a record. With ``masking``, the records that the
    ``reader`` returns are masked. If the caller gives a ``scan``, the index is neither loaded nor saved.

    Raises:
        TraceError: a file of the trace cannot be opened.
    """

    def __init__(self, trace: Trace, masking: Masking | None = None, *, scan: Scan | None = None) -> None:
        self.trace = trace
        self.running = trace.is_recording
        self.source: Final = Source(trace)
        self.unread: Progress | None = None
        saved = None if self.running or scan else self._load()
        self._is_never_saved: Final = saved is not None or scan is not None
        self.scan: Final = scan or saved or Scan(Columns())
        self.columns: Final = self.scan.columns
        self.reader: Final = CallReader(self.columns, self.source, masking)
        self._is_masked: Final = masking is not None
        self._last_line = (0, b"")
        self._searches: dict[tuple[str, ...], TextSearch] = {}
        self._fault: tuple[int, str, str] | None = None
        self._torn = ""

    def _load(self) -> Scan | None:
        if self.source.size < SMALLEST_SAVED_BYTES:
            return None
        from mcpproxy.read.view.index import saved_index

        return saved_index.load(self.source)

    def prepare_save(self) -> Callable[[], None] | None:
        """Return a function that saves the index; it may be called in another thread.

        Return ``None`` unless this is the new index of a large recording that has ended. ``read`` saves the
        index itself, unless its time is limited.
        """
        is_complete = not (self.running or self.unread or self._fault)
        if self._is_never_saved or not is_complete or self.source.size < SMALLEST_SAVED_BYTES:
            return None
        from mcpproxy.read.view.index import saved_index

        return saved_index.prepare_save(self.source, self.scan)

    def read(self, for_s: float = math.inf) -> None:
        """Add further lines to the index, and save it if it is then complete.

        With ``for_s``, stop after about that many seconds, and leave the saving to the caller.
        """
        columns, scan, source = self.columns, self.scan, self.source
        lines, until = source.lines(scan.end_offset), time.monotonic() + for_s
        self.unread = None
        try:
            while scan.feed(islice(lines, _STEP_LINES)):
                if time.monotonic() >= until and scan.end_offset < (size := source.size):
                    self.unread = Progress(scan.end_offset, size, columns.rows)
                    break
        except NotARecordError as fault:
            number = columns.lines + 1
            self._fault = (number, str(fault), whole_before(number))
        is_at_end = not (self.running or self.unread or self._fault)
        if is_at_end and (last_line := source.line_at(scan.end_offset)):
            try:  # perhaps the last record is complete and lacks only its line feed
                scan.feed([last_line + b"\n"])
            except NotARecordError:
                number = columns.lines + 1
                self._torn = f"line {number}: cut off mid-record; {columns.lines} records read"
        offset = columns.line_offset[-1]
        self._last_line = offset, source.line_at(offset)
        if for_s == math.inf and (save := self.prepare_save()):
            save()

    def is_continued_by(self, trace: Trace) -> bool:
        """Whether ``trace`` has the same files, and the last line in the index is unchanged."""
        offset, line = self._last_line
        return self.source.has_files_of(trace) and self.source.line_at(offset) == line

    def follow(self, trace: Trace) -> None:
        """Replace the trace by ``trace``, which continues it; ``read`` then reads the new lines."""
        self.source.add_files(trace.readable_files)
        self.trace, self.running = trace, trace.is_recording

    def now_ns(self) -> int:
        """Return the time until which open requests have waited: now, or the end of the recording.

        It is in nanoseconds since the start of the recording.
        """
        if not self.running:
            return self.scan.last_ns
        return max(time.monotonic_ns() - self.trace.header.started_ns, self.scan.last_ns)

    def session_name(self, number: int) -> str:
        """Return the name of a session; empty if it has none, or if there is no such session."""
        sessions = self.scan.sessions
        return sessions[number].name if number < len(sessions) else ""

    def records(self, first: int) -> Iterator[tuple[int, Record]]:
        """Yield the records that are in the index, from line ``first`` on, with the numbers of their lines.

        The header is on line 0.
        """
        for line in range(first, self.columns.lines):
            if self.reader.line(line).strip():
                yield line, self.reader.record(line)

    def rows_with_text(self, texts: tuple[str, ...]) -> Generator[Progress, None, set[int]]:
        """Yield how far the search is, and return the rows that have one of ``texts``.

        Bytes that were searched before are not searched again.
        """
        from mcpproxy.read.view.rows.search import TextSearch

        search = self._searches.pop(texts, None) or TextSearch(texts)
        while len(self._searches) >= _KEPT_SEARCHES:
            del self._searches[next(iter(self._searches))]
        self._searches[texts] = search
        yield from search.search_until(self.columns, self.scan.odd_lines, self.source, self.scan.end_offset)
        return search.rows(self.columns, self.reader.record if self._is_masked else None)

    def lines_with_text(self, texts: tuple[str, ...]) -> dict[int, int]:
        """Return row -> its first line with one of ``texts``.

        Empty unless ``texts`` are among the latest that ``rows_with_text`` searched.
        """
        search = self._searches.get(texts)
        lines = sorted(search.lines, reverse=True) if search else []
        return {self.columns.line_row[line]: line for line in lines}

    def refuse_damage(self) -> None:
        """Check that every line is a record, and that the files, each of which names the next, form no cycle.

        Raises:
            TraceError: one of these is wrong. The rows before the damage remain available.
        """
        last, path = self.scan.last, self.trace.path
        files = [os.path.basename(file) for file in self.trace.readable_files]
        if isinstance(last, Continued) and last.file in files:
            raise TraceError(path, None, ENDLESS, "record again")
        if self._fault:
            number, fact, next_step = self._fault
            raise TraceError(path, number, fact, next_step)

    def notes(self) -> list[str]:
        """Return clauses that say what is missing from the recording, or cannot be read."""
        notes = self.trace.notes_at_start()
        missing = [self.reader.record(line) for line in self.scan.missing_lines]
        notes += [gap_note(record) for record in missing if isinstance(record, Gap)]
        notes += undecoded_notes(Counter(record.why for record in missing if isinstance(record, Note)))
        if self._fault:
            number, fact, next_step = self._fault
            notes.append(f"line {number}: {fact}; {next_step}")
        elif not self.unread:
            notes += [self._torn] if self._torn else []
            notes += self.trace.notes_at_end(self.scan.last, self.scan.frames)
        return notes
