"""One recording as calls, for the terminal, the page and the exports. ``view/README.md`` shows how to use it.

The file of a ``View`` may still grow; ``refresh`` reads what was added. A ``View`` is used from one thread
at a time. A filter is a text in the language of ``mcpproxy.view.filter``, or what ``parse_filter`` returned.
"""

import math
import os
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from mcpproxy.base.visible import visible
from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.session.frame import Close, Event, Finding, Frame, Severity
from mcpproxy.trace.reader import Trace
from mcpproxy.trace.records import CloseRecord, Header, Record, frame_bytes
from mcpproxy.trace.short_lines import Lines
from mcpproxy.view import details
from mcpproxy.view.call_reader import Masking
from mcpproxy.view.calls import (
    Call,
    Detail,
    FoundRule,
    Kind,
    Outcome,
    Part,
    Progress,
    Refreshed,
    RuleFindings,
    SessionSummary,
    ToolDefinition,
)  # fmt: skip
from mcpproxy.view.filter import Filter, Term, parse_filter
from mcpproxy.view.filtered_rows import FilteredRows
from mcpproxy.view.growing_trace import GrowingTrace, UntouchedTrace
from mcpproxy.view.index.columns import FROM_SERVER, KINDS, OUTCOMES
from mcpproxy.view.index.indexed_trace import IndexedTrace
from mcpproxy.view.recorded_findings import RecordedFindings
from mcpproxy.view.summaries import summaries

if TYPE_CHECKING:
    from mcpproxy.checks.opt_in.pins import Pins
    from mcpproxy.view.drift import Drift
    from mcpproxy.view.select_rows import Rows

AnyFilter = Filter | str | None


class View:
    """An open recording; see ``open_view``.

    ``header`` is the first record of the trace.
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
        self._index = index = IndexedTrace(trace, self._masking)
        self.columns = index.columns
        self._found = RecordedFindings(index)
        self._filtered = FilteredRows(self)
        self._summaries: tuple[SessionSummary, ...] | None = None
        try:
            self.read_on(for_s)
        except BaseException:
            self.close()
            raise
        index.scan.first_changed = 0

    def read_on(self, for_s: float = math.inf) -> None:
        """Read for about ``for_s`` seconds what was not read yet. ``refresh`` says afterwards what is new."""
        self._index.read(for_s)
        self._places = details.CallPlaces(self.columns)
        self._found.with_rows()  # counts them in the columns

    def close(self) -> None:
        """Close the files."""
        self._index.source.close()

    def __enter__(self) -> "View":
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    # What the recording is

    @property
    def running(self) -> bool:
        """Whether the recording was still being written when it was read last."""
        return self._index.running

    @property
    def unread(self) -> Progress | None:
        """How far the reading of the recording is; ``None`` if it was read to its end.

        Until then the answer to a request may not have been read yet, and what is missing is not known.
        """
        return self._index.unread

    @property
    def transport(self) -> str:
        """``stdio`` or ``http``."""
        return self.header.transport

    @property
    def frames(self) -> int:
        """The number of frames so far."""
        return sum(self._index.scan.frames.values())

    @property
    def ended(self) -> Close | None:
        """How the recording ended; ``None`` if it is running or was cut off."""
        return self._index.scan.last.close if isinstance(self._index.scan.last, CloseRecord) else None

    @property
    def duration_ns(self) -> int:
        """The time of the last record, which is the length of the recording so far."""
        return self._index.scan.last_ns

    @property
    def notes(self) -> tuple[str, ...]:
        """What is missing from the recording, each in a part of a sentence."""
        return tuple(self._index.notes())

    @property
    def complete(self) -> bool:
        """Whether nothing is known to be missing from the recording."""
        return not self._index.notes()

    def refuse_damage(self) -> None:
        """Check that every line of the recording is a record, and that its files, each of which names the
        next, form no cycle.

        Raises:
            TraceError: one of them is not so. The rows before the damage stay available.
        """
        self._index.refuse_damage()

    @property
    def not_judged(self) -> str:
        """Why the recording has not been judged, or not to its end; empty if it was judged."""
        if self.header.imported:
            return "it was recorded by another program and not judged; mcpproxy check judges it"
        tally = self._index.scan.last.tally if self._index.scan.last else None
        return visible(tally.not_judged) if tally else ""

    @property
    def found(self) -> Mapping[Severity, int]:
        """How many findings of each severity there are, including those that the recorder only counted."""
        tally = self._index.scan.last.tally if self._index.scan.last else None
        if tally:
            return dict(tally.total_findings)
        return Counter(finding.severity for finding, _ in self._found.with_rows())

    @property
    def sessions(self) -> tuple[SessionSummary, ...]:
        """The sessions, in the order in which they began."""
        if self._summaries is None:
            findings = self._found.with_rows()
            scan = self._index.scan
            self._summaries = summaries(self.columns, scan.sessions, findings, scan.last_ns)
        return self._summaries

    # Rows

    def outcomes(self) -> Counter[Outcome]:
        """Return how many requests ended in each way."""
        columns, request = self.columns, KINDS.index(Kind.REQUEST)
        counted: Counter[Outcome] = Counter()
        pairs = Counter(zip(columns.kind[1:], columns.outcome[1:], strict=True))
        for (kind, outcome), number in pairs.items():
            if kind & ~FROM_SERVER == request:
                counted[OUTCOMES[outcome]] += number
        return counted

    def count(self, filter: AnyFilter = None) -> int:
        """Return how many rows pass the filter.

        Raises:
            FilterError: the filter cannot be read. All methods with a filter raise it.
        """
        rows = self._rows(filter)
        return self.columns.rows if rows is None else len(rows)

    def calls(self, filter: AnyFilter = None, start: int = 0, limit: int = 200) -> list[Call]:
        """Return at most ``limit`` of the rows that pass the filter, from position ``start`` on.

        Positions count from 0.
        """
        rows = self._rows(filter)
        if rows is None:
            rows = range(start + 1, min(start + limit, self.columns.rows) + 1)
        else:
            rows = rows[start : start + limit]
        now_ns = self.now_ns()
        return [self._call(row, now_ns) for row in rows]

    def numbers(self, filter: AnyFilter = None) -> Iterable[int]:
        """Return the numbers of the rows that pass the filter, in order."""
        rows = self._rows(filter)
        return range(1, self.columns.rows + 1) if rows is None else rows

    def frames_of(self, filter: AnyFilter) -> list[int]:
        """Return the sequence numbers of all frames of the rows that pass the filter, in order."""
        rows, columns = set(self.numbers(filter)), self.columns
        # The line of a batch belongs to its first row; here it counts for every row of the batch.
        batches = {columns.first_line[row] for row in columns.elements.keys() & rows}
        batches |= {columns.answer_line[row] for row in columns.answer_elements.keys() & rows}

        def belongs(line: int) -> bool:
            return columns.line_row[line] in rows or line in batches

        seqs = [seq for seq, line in enumerate(columns.line_of_seq) if line and belongs(line)]
        return seqs + sorted(seq for seq, line in columns.far_seqs.items() if belongs(line))

    def position(self, number: int, filter: AnyFilter = None) -> int:
        """Return the position that a row has, or would have, among the rows that pass the filter."""
        rows = self._rows(filter)
        return min(max(number - 1, 0), self.columns.rows) if rows is None else bisect_left(rows, number)

    def call(self, number: int) -> Call:
        """Return one row.

        Raises:
            IndexError: there is no such row.
        """
        if not 1 <= number <= self.columns.rows:
            raise IndexError(f"there is no call {number}: the last is {self.columns.rows}")
        return self._call(number, self.now_ns())

    def _call(self, row: int, now_ns: int) -> Call:
        call = self._index.reader.call(row, now_ns)
        if call.outcome is not Outcome.NO_ANSWER:
            return call
        if self.unread:
            call = replace(call, waited_ns=None)
        if call.kind is Kind.REQUEST:
            return replace(call, progress=details.progress_of(self.columns, self._index.reader, row))
        return call

    def find(self, filter: AnyFilter) -> Iterator[Progress]:
        """Apply a filter with a free text step by step, and yield how much was searched.

        When the iterator is exhausted, the other methods answer for this filter at once. A caller that stops
        iterating cancels the search.
        """
        parsed = parse_filter(filter) if isinstance(filter, str) else filter
        if parsed:
            yield from self._filtered.find(parsed)

    def _rows(self, filter: AnyFilter) -> "Rows | None":
        parsed = parse_filter(filter) if isinstance(filter, str) else filter
        return self._filtered.rows(parsed) if parsed else None

    # One row

    def parts(self, number: int, limit: int | None = None) -> Detail:
        """Return everything that belongs to a row.

        If there are more than ``limit`` records, those in the middle are left out.

        Raises:
            IndexError: there is no such row.
        """
        call = self.call(number)
        columns = self.columns
        inner = self._places.inner_rows(number)
        parts: list[Part] = []
        lines = self._places.lines(number, inner)
        left_out = _leave_out_middle(lines, limit)
        for line in lines:
            parts += details.part(columns, self._index.reader, number, line)
        left_out += _leave_out_middle(parts, limit)  # a line has many parts if it is a run of short lines
        findings = tuple(details.found_rule(f, number) for f in self._found.of_row(number))
        return Detail(call, tuple(parts), findings, tuple(inner), left_out)

    def sort_parts(self) -> None:
        """Sort the index by calls. After that ``parts`` of all rows takes a fraction of the time.

        It is for a caller that goes through a whole recording; ``refresh`` undoes it.
        """
        self._places = details.SortedCallPlaces(self.columns)

    def raw(self, seq: int) -> bytes:
        """Return the bytes of a frame as they were sent.

        Those of a frame in an SSE event are the whole event.

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
        record = self._index.reader.record(line)
        if isinstance(record, Lines):
            record = next(event for event in record.events() if getattr(event, "seq", 0) == seq)
        if not isinstance(record, Event):
            raise LookupError(f"there is no frame {seq}")
        return record

    def records(self, first: int) -> Iterator[tuple[int, Record]]:
        """Yield the records that were read so far, from line ``first`` on, with the numbers of their lines.

        The header is on line 0. A row has the lines of its records in ``columns``.
        """
        for line in range(first, self.columns.lines):
            if self._index.reader.line(line).strip():
                yield line, self._index.reader.record(line)

    def row_of(self, seq: int) -> int:
        """Return the number of the row to which a frame belongs; 0 if it belongs to none."""
        return self.columns.row_of(seq)

    # Findings and tools

    def findings_by_rule(self) -> tuple[RuleFindings, ...]:
        """Return the findings, grouped by rule: the worst first, then the most frequent."""
        return self._found.by_rule()

    def findings_with_rows(self) -> tuple[tuple[Finding, int], ...]:
        """Return all findings that have a record, each with its row, in the order of the recording."""
        return tuple(self._found.with_rows())

    def findings(self) -> tuple[FoundRule, ...]:
        """Return all findings that have a record, with the texts of their rules, in the same order."""
        return tuple(details.found_rule(finding, row) for finding, row in self._found.with_rows())

    def tools(self) -> tuple[ToolDefinition, ...]:
        """Return the tools of the servers: first those in the last listings, then those that were only
        called."""
        from mcpproxy.view.tools import tools

        return tools(self.columns, self._index.reader, self._index.scan.tool_lists)

    def definition(self, tool: str | None) -> JSONObject | None:
        """Return the definition of a tool; ``None`` if no server listed one of this name."""
        from mcpproxy.view.tools import definition

        return definition(self.columns, self._index.reader, self._index.scan.tool_lists, tool)

    def drift(self, pins: "Pins") -> "tuple[dict[tuple[int, str], Drift], tuple[Drift, ...]]":
        """Compare the tools with ``pins``; see ``mcpproxy.view.drift``."""
        from mcpproxy.view.drift import drift
        from mcpproxy.view.tools import whole_lists

        whole = whole_lists(self.columns, self._index.reader, self._index.scan.tool_lists)
        return drift(self.tools(), self.sessions, whole, pins)

    # A recording that goes on

    def refresh(self, for_s: float = math.inf) -> Refreshed:
        """Read what was not read yet, or was recorded since, and say which rows are new or have changed.

        After about ``for_s`` seconds it stops, and the next call goes on from there.

        Raises:
            TraceError: the recording does not exist any more, or cannot be read.
        """
        rebuilt = False
        if self.unread:
            self.read_on(for_s)
        elif self.running:
            trace = self._growing.open()
            rebuilt = not self._index.is_continued_by(trace)
            if rebuilt:  # the file was completed from its journal, or replaced
                self.close()
                self._open(trace, for_s)
            else:
                self._index.follow(trace)
                self.read_on(for_s)
        first = 1 if rebuilt else self._index.scan.first_changed
        if first:
            self._summaries = None
        self._index.scan.first_changed = 0
        self._filtered.mark_stale(first)
        return Refreshed(first, self.columns.rows, self.running, rebuilt)

    def prepare_save(self) -> Callable[[], None] | None:
        """Return a function that saves the index, perhaps in another thread; ``None`` if none is needed.

        ``open_view`` and ``refresh`` save it themselves, unless their time is limited.
        """
        return self._index.prepare_save()

    def now_ns(self) -> int:
        """Return until when an open request has waited: now, or the end of the recording."""
        if not self.running:
            return self._index.scan.last_ns
        return max(time.monotonic_ns() - self.header.started_ns, self._index.scan.last_ns)

    # For filters

    def name(self, row: int) -> tuple[str, str | None]:
        """Return the method and target of a row as they were sent, without escapes."""
        return self._index.reader.name(row)

    def names(self) -> list[tuple[str, str | None]]:
        """Return the methods and targets of the index, without escapes."""
        return self._index.reader.names()

    def id_of(self, row: int) -> str:
        """Return the id of a row's request as JSON."""
        return self._index.reader.call(row, 0).id

    def session_name(self, number: int) -> str:
        """Return the name of a session."""
        sessions = self._index.scan.sessions
        return sessions[number].name if number < len(sessions) else ""

    def rows_with_rule(self, term: Term) -> set[int]:
        """Return the rows with a finding of one of the rules that a term names."""
        return {row for finding, row in self._found.with_rows() if term.matches(finding.rule)}

    def rows_with_text(self, texts: tuple[str, ...]) -> Generator[Progress, None, set[int]]:
        """Return the rows that have one of ``texts``.

        Bytes that were searched before are not searched again.
        """
        return (yield from self._index.rows_with_text(texts))


def _leave_out_middle(items: "list[int] | list[Part]", limit: int | None) -> int:
    """Shorten a list to ``limit`` items by removing those in the middle; return how many were removed."""
    if limit is None or len(items) <= limit:
        return 0
    left_out = len(items) - limit
    del items[limit // 2 : limit // 2 + left_out]
    return left_out


def open_view(
    path: str | os.PathLike[str],
    for_s: float = math.inf,
    masking: Masking | None = None,
    *,
    only_reads: bool = False,
) -> View:
    """Open a recording: a trace, finished or still running, or a recording of another program.

    A million calls without a saved index take some seconds. After about ``for_s`` seconds the view has the
    first rows, and each ``refresh`` reads on, until nothing is ``unread``. With ``masking``, everything that
    the view gives is masked, and filters see only what is masked. With ``only_reads``, a trace is read as it
    is: a killed session is not completed from its journal, and nothing is imported.

    Raises:
        TraceError: there is no recording at ``path``, or it cannot be read.
    """
    return View(UntouchedTrace(path) if only_reads else GrowingTrace(path), for_s, masking)
