"""A trace with its index, which is read from the file, or loaded if it was saved.

A running recording is read on from where the index ends.
"""

import os
from collections.abc import Callable
from itertools import islice
from typing import Final

from mcpproxy.errors import TraceError
from mcpproxy.session.frame import Gap
from mcpproxy.trace.members import NotARecordError
from mcpproxy.trace.reader import ENDLESS, Trace, gap_note
from mcpproxy.trace.records import Continued
from mcpproxy.view.call_reader import CallReader
from mcpproxy.view.calls import Progress
from mcpproxy.view.index.columns import Columns
from mcpproxy.view.index.scan import Scan
from mcpproxy.view.index.source import Source

SMALLEST_SAVED_BYTES: Final = 16 << 20
"""The index of a smaller recording is not saved: it is read in less than half a second."""

_STEP_LINES: Final = 20_000
"""How many lines are read between two reports of progress."""


class IndexedTrace:
    """``trace`` as it was opened last, with the index of its lines.

    ``running`` is whether the recording was still being written then. ``is_loaded`` is whether the index is
    a saved one.
    """

    def __init__(self, trace: Trace, progress: Callable[[Progress], None] | None) -> None:
        self.trace = trace
        self.running = trace.is_recording
        self.source: Final = Source(trace)
        self._progress: Final = progress
        saved = None if self.running else self._load()
        self.is_loaded: Final = saved is not None
        self.scan: Final = saved or Scan(Columns())
        self.columns: Final = self.scan.columns
        self.reader: Final = CallReader(self.columns, self.source)
        self._last_line = (0, b"")
        self._fault: tuple[int, str, str] | None = None
        self._torn = ""

    def _load(self) -> Scan | None:
        """Return the saved index; ``None`` if there is none."""
        if self.source.size < SMALLEST_SAVED_BYTES:
            return None
        from mcpproxy.view.index import saved_index

        return saved_index.load(self.source)

    def save(self) -> None:
        """Save the index of a large recording that has ended."""
        if not self.running and not self._fault and self.source.size >= SMALLEST_SAVED_BYTES:
            from mcpproxy.view.index import saved_index

            saved_index.save(self.source, self.scan)

    def read(self) -> None:
        """Add the lines to the index that are not in it."""
        columns, scan, source = self.columns, self.scan, self.source
        lines = source.lines(scan.end_offset)
        try:
            while scan.feed(islice(lines, _STEP_LINES)):
                if self._progress:
                    self._progress(Progress(scan.end_offset, source.size, columns.rows))
        except NotARecordError as fault:
            self._fault = (
                columns.lines + 1,
                str(fault),
                f"the {columns.lines} records before it are whole",
            )
        if not self.running and not self._fault and (last_line := source.line_at(scan.end_offset)):
            try:  # perhaps the last record is whole, and lacks only its line feed
                scan.feed([last_line + b"\n"])
            except NotARecordError:
                number = columns.lines + 1
                self._torn = f"line {number}: cut off mid-record; {columns.lines} records read"
        offset = columns.line_offset[-1]
        self._last_line = offset, source.line_at(offset)

    def is_continued_by(self, trace: Trace) -> bool:
        """Whether ``trace`` is the same file, and its lines up to the end of the index are the same."""
        offset, line = self._last_line
        return self.source.is_still(trace) and self.source.line_at(offset) == line

    def read_on(self, trace: Trace) -> None:
        """Read what ``trace``, which continues this one, has more."""
        self.source.add_files(trace.readable_files)
        self.trace, self.running = trace, trace.is_recording
        self.read()

    def refuse_damage(self) -> None:
        """Check that every line of the recording is a record, and that its files, each of which names the
        next, form no cycle.

        Raises:
            TraceError: one of them is not so. The rows before the damage stay available.
        """
        last, path = self.scan.last, self.trace.path
        files = [os.path.basename(file) for file in self.trace.readable_files]
        if isinstance(last, Continued) and last.file in files:
            raise TraceError(path, None, ENDLESS, "record again")
        if self._fault:
            number, fact, next_step = self._fault
            raise TraceError(path, number, fact, next_step)

    def notes(self) -> list[str]:
        """Return what is missing from the recording, each in a part of a sentence."""
        notes = self.trace.notes_at_start()
        for line in self.scan.gap_lines:
            gap = self.reader.record(line)
            assert isinstance(gap, Gap)
            notes.append(gap_note(gap))
        if self._fault:
            number, fact, next_step = self._fault
            notes.append(f"line {number}: {fact}; {next_step}")
        else:
            notes += [self._torn] if self._torn else []
            notes += self.trace.notes_at_end(self.scan.last, self.scan.frames)
        return notes
