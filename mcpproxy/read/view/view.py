"""Show a recording as calls, for the terminal, the page and the exports. ``view/README.md`` has an example.

A row is a call, which is a request with its answer, or a record that is not part of a request. The recording
may still grow; ``refresh`` reads the new records. A ``View`` is used from one thread at a time.
A filter is a text in the language of ``judge.session.filter``, or the result of ``parse_filter``. An order is
``time``, ``outcome``, ``method``, ``latency`` or ``bytes``, or empty for the order of the recording; a ``-``
before it reverses it.
"""

import math
import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from mcpproxy.base.style import tally
from mcpproxy.base.visible import visible
from mcpproxy.judge.session.ending import ending_text, not_begun
from mcpproxy.judge.session.filter import Filter, parse_filter
from mcpproxy.judge.session.frame import WORST_FIRST, Close, Event, Frame
from mcpproxy.judge.session.outcomes import Kind, Outcome
from mcpproxy.protocol.jsonrpc import Single
from mcpproxy.protocol.message_parts import singles
from mcpproxy.read.view.call_reader import Masking
from mcpproxy.read.view.calls import Call, Detail, Part, Progress, Refreshed, SessionSummary
from mcpproxy.read.view.causes import LOST, HowEnded, brief_cause, cause_of
from mcpproxy.read.view.details import (
    CallParts,
    SortedCallParts,
    progress_of,
    with_intervention,
    with_telling_line,
)
from mcpproxy.read.view.growing_trace import GrowingTrace, UntouchedTrace
from mcpproxy.read.view.index.indexed_trace import IndexedTrace
from mcpproxy.read.view.recorded_findings import RecordedFindings
from mcpproxy.read.view.rows.filtered_rows import FilteredRows
from mcpproxy.read.view.rows.stray_rows import stray_output
from mcpproxy.read.view.summaries import summaries
from mcpproxy.record.trace.reader import Trace
from mcpproxy.record.trace.records import CloseRecord, Header, frame_bytes, not_judged
from mcpproxy.record.trace.short_lines import Lines

if TYPE_CHECKING:
    from mcpproxy.read.view.rows.select_rows import Rows
    from mcpproxy.read.view.tools import RecordedTools

AnyFilter = Filter | str | None

_LAST_WORDS: Final = 50
"""How many lines on stderr before a server's failure are read: half of them the first, half the last."""


class View:
    """An open recording; see ``open_view``.

    ``header`` is the first record of the trace. ``index`` is the index of the lines read so far, ``columns``
    its numbers, and ``findings`` the findings in it; ``refresh`` may replace all three.
    """

    def __init__(
        self, growing: GrowingTrace, for_s: float = math.inf, masking: Masking | None = None
    ) -> None:
        self._growing: Final = growing
        self._masking: Final = masking
        trace = growing.open()
        self.path: Final = trace.path
        self.header: Final[Header] = trace.header
        self._open(trace, for_s)

    def _open(self, trace: Trace, for_s: float) -> None:
        self.index = index = IndexedTrace(trace, self._masking)
        self.columns = index.columns
        self.findings = RecordedFindings(index)
        self._filtered = FilteredRows(index, self.findings)
        self._summaries: tuple[SessionSummary, ...] | None = None
        try:
            self.read_on(for_s)
        except BaseException:
            self.close()
            raise
        index.scan.first_changed = 0

    def read_on(self, for_s: float = math.inf) -> None:
        """Read further lines for about ``for_s`` seconds. The next ``refresh`` returns which rows are new."""
        self.index.read(for_s)
        self._parts = CallParts(self.columns, self.index.reader)
        self.findings.with_rows()  # counts them in the columns

    def close(self) -> None:
        """Close the files."""
        self.index.source.close()
        self._growing.close()

    def __enter__(self) -> "View":
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    # Facts about the recording

    @property
    def running(self) -> bool:
        """Whether the recording was still being written when it was last read."""
        return self.index.running

    @property
    def unread(self) -> Progress | None:
        """How far the reading of the recording is; ``None`` if it was read to its end.

        Until then, the answer to a request may not have been read yet, and ``notes`` are incomplete.
        """
        return self.index.unread

    @property
    def frames(self) -> int:
        """The number of frames so far."""
        return sum(self.index.scan.frames.values())

    @property
    def ended(self) -> Close | None:
        """How the recording ended; ``None`` if it is running or was cut off."""
        return self.index.scan.last.close if isinstance(self.index.scan.last, CloseRecord) else None

    @property
    def not_begun(self) -> str:
        """A clause on how the server failed before any message; empty if it did not."""
        first_end = self.index.scan.first_end
        by = first_end.by if first_end else ""
        return not_begun(self.ended, self.header, self.frames, by) if self.ended else ""

    @property
    def duration_ns(self) -> int:
        """The time of the last record: the length of the recording so far, in nanoseconds."""
        return self.index.scan.last_ns

    @property
    def notes(self) -> tuple[str, ...]:
        """What is known to be missing from the recording, or cannot be read; each is a clause."""
        return tuple(self.index.notes())

    @property
    def not_judged(self) -> str:
        """Why the recording has not been judged, or not to its end; empty if it was judged."""
        return visible(not_judged(self.header, self.index.scan.last.tally if self.index.scan.last else None))

    @property
    def found(self) -> str:
        """The numbers of findings in words, as ``tally`` gives them.

        It is ``not judged`` for a recording of a kind that is not judged, and ``nothing to judge`` if the
        server failed before any message.
        """
        if self.header.imported or self.header.model:
            return "not judged"
        if self.not_begun:
            return "nothing to judge"
        counts = self.findings.counts()
        return tally(*(counts.get(severity, 0) for severity in WORST_FIRST))

    @property
    def sessions(self) -> tuple[SessionSummary, ...]:
        """The sessions that have rows, in the order in which they began."""
        if self._summaries is None:
            findings, scan = self.findings.with_rows(), self.index.scan
            self._summaries = summaries(self.columns, scan.sessions, findings, scan.last_ns)
        return self._summaries

    # Rows

    def count(self, filter: AnyFilter = None) -> int:
        """Return how many rows pass the filter.

        Raises:
            FilterError: the filter cannot be read. All methods with a filter raise it.
        """
        rows = self._rows(filter)
        return self.columns.rows if rows is None else len(rows)

    def calls(
        self, filter: AnyFilter = None, start: int = 0, limit: int = 200, order: str = ""
    ) -> list[Call]:
        """Return at most ``limit`` of the rows that pass the filter, from position ``start`` on.

        Positions count from 0.

        Raises:
            ValueError: there is no such order. All methods with an order raise it.
        """
        rows = self._rows(filter, order)
        if rows is None:
            rows = range(start + 1, min(start + limit, self.columns.rows) + 1)
        else:
            rows = rows[start : start + limit]
        now_ns = self.index.now_ns()
        return [self._call(row, now_ns) for row in rows]

    def numbers(self, filter: AnyFilter = None) -> Iterable[int]:
        """Return the numbers of the rows that pass the filter, in order."""
        rows = self._rows(filter)
        return range(1, self.columns.rows + 1) if rows is None else rows

    def frames_of(self, filter: AnyFilter) -> list[int]:
        """Return the sequence numbers of all frames and heads of the rows that pass the filter, in order."""
        return self.columns.seqs_of(self.numbers(filter))

    def position(self, number: int, filter: AnyFilter = None, order: str = "") -> int:
        """Return the position that a row has, or would have, among the rows that pass the filter.

        With an ``order``, a row that does not pass comes after the last one.
        """
        rows = self._rows(filter, order)
        if order and rows is not None:
            return rows.index(number) if number in rows else len(rows)
        return min(max(number - 1, 0), self.columns.rows) if rows is None else bisect_left(rows, number)

    def call(self, number: int) -> Call:
        """Return one row.

        Raises:
            IndexError: there is no such row.
        """
        if not 1 <= number <= self.columns.rows:
            raise IndexError(f"there is no call {number}: the last is {self.columns.rows}")
        return self._call(number, self.index.now_ns())

    def _call(self, row: int, now_ns: int) -> Call:
        call = self.index.reader.call(row, now_ns)
        if call.findings:
            call = replace(call, worst_findings=self.findings.worst_count(row))
        if call.kind is Kind.STDERR:
            return with_telling_line(call, *self._parts.stderr(row))
        if row in self.columns.faults:
            call = with_intervention(self.columns, self.index.reader, call, is_running=self.running)
        if progress := progress_of(self.columns, self.index.reader, row):
            call = replace(call, progress=progress)
        if call.outcome not in LOST:
            return call
        if call.outcome is Outcome.UNANSWERED and self.unread:
            call = replace(call, waited_ns=None)
        latest = [*self._parts.latest(row), *self._related_parts(call)]
        cause = brief_cause(call, latest, self._stray(call), self._how_it_ended)
        return replace(call, cause=cause) if cause else call

    def _related_parts(self, call: Call) -> list[Part]:
        """Return records that may show why a call was unsuccessful, but may belong to another row.

        For a call with an error or an unreadable answer, that is its answer, which may be an element of a
        batch. For a call that was open when the server failed, it is the server's last lines on stderr, which
        belong to no call if several were open.
        """
        if call.outcome in (Outcome.RPC_ERROR, Outcome.UNREADABLE):
            return self._parts.answer(call.number)
        if call.outcome is not Outcome.UNANSWERED or self.ended is None or self.ended.exit_code == 0:
            return []
        last = self.columns.rows
        is_stderr = self.columns.kind_of(last) is Kind.STDERR
        return self._parts.parts(last, [], _LAST_WORDS)[0] if is_stderr else []

    @property
    def _how_it_ended(self) -> HowEnded:
        words = ending_text(self.ended, self.header) if self.ended else ""
        return HowEnded(words, self.index.scan.first_end, self.running)

    def _stray(self, call: Call) -> Part | None:
        """Return output of a request's receiver that came instead of its answer, or before it.

        It is an answer with a wrong id, or output that is no message; ``None`` if there is neither.
        """
        if call.kind is not Kind.REQUEST:
            return None
        # All requests of a batch are in one frame.
        is_alone = call.number not in self.columns.elements
        row = self.columns.row_of(self.findings.wrongly_answered.get(call.frame, 0)) if is_alone else 0
        if row:
            return self._parts.first(row)
        if call.exchange:  # over HTTP such output belongs to the call
            return None
        return stray_output(self.columns, self._parts, call.number, call.id)

    def find(self, filter: AnyFilter, order: str = "") -> Iterator[Progress]:
        """Apply a filter and an order step by step, and yield the progress.

        When the iterator is exhausted, the other methods return at once for this filter and order. A caller
        cancels the search by stopping the iteration.
        """
        yield from self._filtered.find(_parsed_filter(filter), order)

    def _rows(self, filter: AnyFilter, order: str = "") -> "Rows | None":
        return self._filtered.rows(_parsed_filter(filter), order)

    # One row

    def parts(self, number: int, limit: int | None = None) -> Detail:
        """Return everything that belongs to a row.

        If there are more than ``limit`` records, those in the middle are left out.

        Raises:
            IndexError: there is no such row.
        """
        call = self.call(number)
        inner = self._parts.inner_rows(number)
        parts, left_out = self._parts.parts(number, inner, limit, call.result)
        stray = self._stray(call)
        related = [*parts, *self._related_parts(call)]
        cause = cause_of(call, related, stray, self._how_it_ended)
        findings, cause_row = self.findings.of_row(number), stray.row if stray and cause else 0
        return Detail(call, tuple(parts), findings, tuple(inner), left_out, cause, cause_row)

    def sort_parts(self) -> None:
        """Sort the index by calls. After that, ``parts`` takes a fraction of the time.

        It is for a caller that reads the parts of all rows; ``refresh`` undoes it.
        """
        self._parts = SortedCallParts(self.columns, self.index.reader)

    def raw(self, seq: int) -> bytes:
        """Return the bytes of a frame as they were sent; if it was an SSE event, the bytes of the event.

        Raises:
            LookupError: there is no frame with this number.
        """
        record = self.record(seq)
        if not isinstance(record, Frame):
            raise LookupError(f"record {seq} is not a frame")
        return frame_bytes(record)

    def record(self, seq: int) -> Event:
        """Return the frame, or the head of an HTTP message, with this sequence number.

        Raises:
            LookupError: no record has this number.
        """
        if not (line := self.columns.line_with(seq)):
            raise LookupError(f"there is no frame {seq}")
        record = self.index.reader.record(line)
        if isinstance(record, Lines):
            record = next(event for event in record.events() if getattr(event, "seq", 0) == seq)
        if not isinstance(record, Event):
            raise LookupError(f"there is no frame {seq}")
        return record

    def message(self, seq: int | None) -> Single | None:
        """Return the only message of a frame; ``None`` if it has several, or there is no frame ``seq``."""
        try:
            record = self.record(seq) if seq else None
        except LookupError:
            return None
        messages = singles(record.message) if isinstance(record, Frame) else ()
        return messages[0] if len(messages) == 1 else None

    @property
    def tools(self) -> "RecordedTools":
        """The tools of the servers."""
        from mcpproxy.read.view.tools import RecordedTools  # imported here: few users ask for tools

        return RecordedTools(self.index)

    # A recording that grows

    def refresh(self, for_s: float = math.inf) -> Refreshed:
        """Read lines that are unread or new, and return which rows are new or have changed.

        It stops after about ``for_s`` seconds; the next call continues from there.

        Raises:
            TraceError: the recording does not exist any more, or cannot be read.
        """
        rebuilt = False
        if self.unread:
            self.read_on(for_s)
        elif self.running:
            trace = self._growing.open()
            rebuilt = not self.index.is_continued_by(trace)
            if rebuilt:  # the file was completed from its journal, or replaced
                self.index.source.close()
                self._open(trace, for_s)
            else:
                self.index.follow(trace)
                self.read_on(for_s)
        first = 1 if rebuilt else self.index.scan.first_changed
        if first:
            self._summaries = None
        self.index.scan.first_changed = 0
        self._filtered.mark_stale(first)
        return Refreshed(first, self.columns.rows, self.running, rebuilt)


def _parsed_filter(filter: AnyFilter) -> Filter | None:
    return (parse_filter(filter) if isinstance(filter, str) else filter) or None


def open_view(
    path: str | os.PathLike[str],
    for_s: float = math.inf,
    masking: Masking | None = None,
    *,
    only_reads: bool = False,
) -> View:
    """Open a recording: a trace, finished or still running, or a recording of another program.

    A million calls without a saved index take some seconds. After about ``for_s`` seconds the view has the
    first rows, and each ``refresh`` continues the reading, until ``unread`` is ``None``. With ``masking``,
    everything that the view returns is masked, and filters see only masked values. With ``only_reads``, a
    trace is read as it is: a killed session is not completed from its journal (the traffic that is not in the
    trace yet), and nothing is imported.

    Raises:
        TraceError: there is no recording at ``path``, or it cannot be read.
    """
    return View(UntouchedTrace(path) if only_reads else GrowingTrace(path), for_s, masking)
