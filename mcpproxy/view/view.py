"""One recording as calls. It answers what the faces ask; ``view/README.md`` shows how to use it.

A ``View`` reads a file that may still grow: ``refresh`` takes in what was added. It is used from one thread
at a time. Filters are texts in the language of ``mcpproxy.view.filter``, or filters that were read.
"""

import os
import time
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.base.visible import visible
from mcpproxy.errors import TraceError
from mcpproxy.session.frame import Close, Event, Finding, Frame, Gap, Severity
from mcpproxy.trace.members import NotARecordError
from mcpproxy.trace.reader import ENDLESS, Trace, gap_note
from mcpproxy.trace.records import CloseRecord, Continued, Header, frame_bytes
from mcpproxy.trace.short_lines import Lines
from mcpproxy.view import details, saved_index
from mcpproxy.view.call_reader import CallReader
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
from mcpproxy.view.columns import SEVERITIES, Columns
from mcpproxy.view.filter import Filter, Term, parse_filter
from mcpproxy.view.growing_trace import GrowingTrace
from mcpproxy.view.scan import Scan
from mcpproxy.view.search import TextSearch
from mcpproxy.view.select_rows import Rows, select
from mcpproxy.view.source import Source
from mcpproxy.view.summaries import summaries

AnyFilter = Filter | str | None


@slotted()
class _Selection:
    """The rows that pass a filter; those from ``stale_from`` on have to be selected again (0: none)."""

    rows: Rows = field(default_factory=lambda: array("I"))
    stale_from: int = 1


class View:
    """An open recording; see ``open_view``.

    ``header`` is the first record. ``running`` is whether it is still being recorded, ``ended`` how it ended
    (``None`` if that is not known). ``notes`` says what is missing from it, one sentence fragment each.
    """

    def __init__(self, growing: GrowingTrace, progress: Callable[[Progress], None] | None = None) -> None:
        self._growing: Final = growing
        trace = growing.open()
        self.path: Final = trace.path
        self._progress: Final = progress
        self.header: Final[Header] = trace.header
        self._open(trace)

    def _open(self, trace: Trace) -> None:
        self._trace = trace
        self.running = trace.is_recording
        self._source = Source(trace)
        kept = None if self.running else saved_index.load(self._source)
        self._scan = kept or Scan(Columns())
        self.columns = self._scan.columns
        self._reader = CallReader(self.columns, self._source)
        self._fault: tuple[int, str, str] | None = None
        self._torn = ""
        self._summaries: tuple[SessionSummary, ...] | None = None
        self._selected: dict[Filter, _Selection] = {}
        self._searches: dict[tuple[str, ...], TextSearch] = {}
        self._read_findings = 0
        self._finding_list: list[tuple[Finding, int]] = []
        try:
            self._read()
        except BaseException:
            self._source.close()
            raise
        if kept is None:
            self._save()
        self._scan.first_changed = 0

    def close(self) -> None:
        """Close the files."""
        self._source.close()

    def __enter__(self) -> "View":
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    # What the recording is

    @property
    def transport(self) -> str:
        """``stdio`` or ``http``."""
        return self.header.transport

    @property
    def frames(self) -> int:
        """The number of frames so far."""
        return sum(self._scan.frames.values())

    @property
    def ended(self) -> Close | None:
        """How the recording ended."""
        return self._scan.last.close if isinstance(self._scan.last, CloseRecord) else None

    @property
    def duration_ns(self) -> int:
        """The time of the last record."""
        return self._scan.last_ns

    @property
    def notes(self) -> tuple[str, ...]:
        """What is missing from the recording."""
        return tuple(self._notes())

    @property
    def complete(self) -> bool:
        """Whether nothing is known to be missing."""
        return not self._notes()

    def refuse_damage(self) -> None:
        """Raise if the recording has a line that is not a record, or has no end.

        Raises:
            TraceError: that is so; what was read is rows as usual.
        """
        last = self._scan.last
        files = [os.path.basename(path) for path in self._trace.readable_files]
        if isinstance(last, Continued) and last.file in files:
            raise TraceError(self.path, None, ENDLESS, "record again")
        if self._fault:
            number, fact, next_step = self._fault
            raise TraceError(self.path, number, fact, next_step)

    @property
    def not_judged(self) -> str:
        """Why the findings of the recording are not all that there would be; empty if it was judged."""
        if self.header.imported:
            return "it was recorded by another program and not judged; mcpproxy check judges it"
        tally = self._scan.last.tally if self._scan.last else None
        if tally and tally.judge_error:
            fault = visible(tally.judge_error)
            return f"the judge failed while recording ({fault}); mcpproxy check judges it again"
        return ""

    @property
    def judge_error(self) -> str:
        """Why the judge failed while recording; empty if it did not."""
        tally = self._scan.last.tally if self._scan.last else None
        return visible(tally.judge_error or "") if tally else ""

    @property
    def found(self) -> Mapping[Severity, int]:
        """How many findings of each severity there are, with those that were only counted."""
        tally = self._scan.last.tally if self._scan.last else None
        if tally:
            return dict(tally.total_findings)
        return Counter(finding.severity for finding, _ in self._findings())

    @property
    def sessions(self) -> tuple[SessionSummary, ...]:
        """The sessions, in the order in which they began."""
        if self._summaries is None:
            findings = self._findings()
            self._summaries = summaries(self.columns, self._scan.sessions, findings, self._scan.last_ns)
        return self._summaries

    # Rows

    def count(self, filter: AnyFilter = None) -> int:
        """Return how many rows pass the filter.

        Raises:
            FilterError: the filter cannot be read. So do all methods that take one.
        """
        rows = self._rows(filter)
        return self.columns.rows if rows is None else len(rows)

    def calls(self, filter: AnyFilter = None, start: int = 0, limit: int = 200) -> list[Call]:
        """Return at most ``limit`` of the rows that pass the filter, from position ``start`` (0) on."""
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
        """Return the sequence numbers of all that belongs to the rows that pass the filter, in order."""
        rows, columns = set(self.numbers(filter)), self.columns
        # The line of a batch belongs to its first row; here it counts for every row of the batch.
        batches = {columns.first_line[row] for row in columns.elements.keys() & rows}
        batches |= {columns.answer_line[row] for row in columns.answer_elements.keys() & rows}

        def belongs(line: int) -> bool:
            return columns.line_row[line] in rows or line in batches

        found = [seq for seq, line in enumerate(columns.line_of_seq) if line and belongs(line)]
        return found + sorted(seq for seq, line in columns.far_seqs.items() if belongs(line))

    def position(self, number: int, filter: AnyFilter = None) -> int:
        """Return where a row is among those that pass the filter, or where it would be."""
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
        call = self._reader.call(row, now_ns)
        if call.outcome is Outcome.NO_ANSWER and call.kind is Kind.REQUEST:
            return replace(call, progress=details.progress_of(self.columns, self._reader, row))
        return call

    def find(self, filter: AnyFilter) -> Iterator[Progress]:
        """Apply a filter with a free text step by step, and say how far it is.

        When the iterator is exhausted, the other methods answer for this filter at once. A caller that stops
        iterating cancels the search.
        """
        wanted = parse_filter(filter) if isinstance(filter, str) else filter
        if not wanted:
            return
        kept = self._selected.get(wanted) or _Selection()
        if not kept.stale_from:
            return
        rows = kept.rows[: bisect_left(kept.rows, kept.stale_from)]
        rows += yield from select(self, wanted, kept.stale_from)
        while len(self._selected) >= _KEPT_FILTERS:
            del self._selected[next(iter(self._selected))]
        self._selected[wanted] = _Selection(rows, 0)

    def _rows(self, filter: AnyFilter) -> "Rows | None":
        wanted = parse_filter(filter) if isinstance(filter, str) else filter
        if not wanted:
            return None
        for _ in self.find(wanted):
            pass
        return self._selected[wanted].rows

    def _mark_stale(self, first: int) -> None:
        """Note that rows from ``first`` on are new or have changed."""
        for wanted, kept in self._selected.items():
            # Requests that wait come to match, or not any more, without a change in the recording.
            waits = any(term.key == "latency" for term in wanted.terms)
            stale_from = 1 if waits else first
            if stale_from:
                kept.stale_from = min(kept.stale_from or stale_from, stale_from)

    # One row

    def parts(self, number: int, limit: int | None = None) -> Detail:
        """Return everything that belongs to a row.

        With ``limit``, of more records than that those in the middle are left out.

        Raises:
            IndexError: there is no such row.
        """
        call = self.call(number)
        columns = self.columns
        inner = details.places(columns.parent, number)
        parts: list[Part] = []
        lines, left_out = details.lines_of(columns, number, inner), 0
        if limit is not None and len(lines) > limit:
            left_out = len(lines) - limit
            lines[limit // 2 : limit // 2 + left_out] = []
        for line in lines:
            parts += details.part(columns, self._reader, number, line)
        found = tuple(details.found_rule(f, row) for f, row in self._findings() if row == number)
        return Detail(call, tuple(parts), found, tuple(inner), left_out)

    def raw(self, seq: int) -> bytes:
        """Return the bytes of a frame as they passed, with those of its event around them.

        Raises:
            LookupError: there is no frame with this number.
        """
        record = self.record(seq)
        if not isinstance(record, Frame):
            raise LookupError(f"record {seq} is no frame")
        return frame_bytes(record)

    def record(self, seq: int) -> Event:
        """Return the frame, or the head of HTTP, with a sequence number.

        Raises:
            LookupError: there is none.
        """
        if not (line := self.columns.line_with(seq)):
            raise LookupError(f"there is no frame {seq}")
        record = self._reader.record(line)
        if isinstance(record, Lines):
            record = next(event for event in record.events() if getattr(event, "seq", 0) == seq)
        if not isinstance(record, Event):
            raise LookupError(f"there is no frame {seq}")
        return record

    def row_of(self, seq: int) -> int:
        """Return the number of the row to which a frame belongs; 0 if it belongs to none."""
        line = self.columns.line_with(seq)
        return self.columns.line_row[line] if line else 0

    # Findings and tools

    def findings_by_rule(self) -> tuple[RuleFindings, ...]:
        """Return the findings, grouped by rule: the worst first, then the most frequent."""
        grouped: dict[str, list[tuple[Finding, int]]] = {}
        for finding, row in self._findings():
            grouped.setdefault(finding.rule, []).append((finding, row))
        more: dict[str, int] = {}
        severities: dict[str, Severity] = {}
        tally = self._scan.last.tally if self._scan.last else None
        for repeated in tally.more if tally else ():
            more[repeated.rule] = more.get(repeated.rule, 0) + repeated.count
            severities[repeated.rule] = repeated.severity
        groups = [
            self._rule_findings(rule, grouped.get(rule, []), more.get(rule, 0), severities.get(rule, "info"))
            for rule in {**grouped, **more}
        ]
        return tuple(sorted(groups, key=lambda g: (-SEVERITIES.index(g.severity), -g.count, g.rule)))

    def _rule_findings(
        self, code: str, found: list[tuple[Finding, int]], more: int, severity: Severity
    ) -> RuleFindings:
        rule = details.rule_of(code)
        severities: list[Severity] = [severity, *(finding.severity for finding, _ in found)]
        worst: Severity = max(severities, key=SEVERITIES.index)
        return RuleFindings(
            rule=visible(code),
            name=rule.name if rule else "",
            severity=worst,
            summary=rule.summary if rule else "",
            count=len(found) + more,
            findings=tuple(finding for finding, _ in found),
            rows=tuple(row for _, row in found),
        )

    def findings(self) -> tuple[FoundRule, ...]:
        """Return all findings that have a record, in the order of the recording."""
        return tuple(details.found_rule(finding, row) for finding, row in self._findings())

    def tools(self) -> tuple[ToolDefinition, ...]:
        """Return the tools of the servers: as they were listed last, then those that were only called."""
        from mcpproxy.view.tools import tools

        return tools(self.columns, self._reader, self._scan.tool_lists)

    # A recording that goes on

    def refresh(self) -> Refreshed:
        """Take in what was recorded since the last time.

        Raises:
            TraceError: the recording is not there any more, or cannot be read.
        """
        if not self.running:
            return Refreshed(0, self.columns.rows, running=False)
        trace = self._growing.open()
        offset, line = self._last_line
        rebuilt = not self._source.is_still(trace) or self._source.line_at(offset) != line
        if rebuilt:  # completed from its journal, or replaced
            self._source.close()
            self._open(trace)
        else:
            self._source.add_files(trace.readable_files)
            self._trace, self.running = trace, trace.is_recording
            self._read()
            self._save()
        first = 1 if rebuilt else self._scan.first_changed
        if first:
            self._summaries = None
        self._scan.first_changed = 0
        self._mark_stale(first)
        return Refreshed(first, self.columns.rows, self.running, rebuilt)

    def _save(self) -> None:
        if not self.running and not self._fault:
            saved_index.save(self._source, self._scan)

    def _read(self) -> None:
        columns, scan, source = self.columns, self._scan, self._source
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
        if not self.running and not self._fault and (rest := source.line_at(scan.end_offset)):
            try:  # without its line feed, the last line may be whole
                scan.feed([rest + b"\n"])
            except NotARecordError:
                number = columns.lines + 1
                self._torn = f"line {number}: cut off mid-record; {columns.lines} records read"
        self._findings()
        offset = columns.line_offset[-1]
        self._last_line = offset, source.line_at(offset)

    def now_ns(self) -> int:
        """Return the time until which requests have waited: now, or the end of the recording."""
        if not self.running:
            return self._scan.last_ns
        return max(time.monotonic_ns() - self.header.started_ns, self._scan.last_ns)

    # For filters

    def name(self, row: int) -> tuple[str, str | None]:
        """Return the method and target of a row as they were sent."""
        return self._reader.name(row)

    def id_of(self, row: int) -> str:
        """Return the id of a row's request as JSON."""
        return self._reader.call(row, 0).id

    def session_name(self, number: int) -> str:
        """Return the name of a session."""
        return self._scan.sessions[number].name if number < len(self._scan.sessions) else ""

    def rows_with_rule(self, term: Term) -> set[int]:
        """Return the rows with a finding of one of the rules that a term names."""
        return {row for finding, row in self._findings() if term.matches(finding.rule)}

    def rows_with_text(self, texts: tuple[str, ...]) -> Generator[Progress, None, set[int]]:
        """Search the recording for a text; what was searched before is not searched again."""
        search = self._searches.pop(texts, None) or TextSearch(texts)
        while len(self._searches) >= _KEPT_SEARCHES:
            del self._searches[next(iter(self._searches))]
        self._searches[texts] = search
        yield from search.go_on(self.columns, self._scan.odd_lines, self._source, self._scan.end_offset)
        return search.rows(self.columns)

    # The inside

    def _findings(self) -> list[tuple[Finding, int]]:
        """Return the recorded findings with their rows, and count them in the columns."""
        for line in self._scan.finding_lines[self._read_findings :]:
            finding = self._reader.record(line)
            assert isinstance(finding, Finding)
            row = self.row_of(finding.frame) if finding.frame else 0
            self._finding_list.append((finding, row))
            if row:
                columns = self.columns
                columns.findings[row] = min(columns.findings[row] + 1, 0xFFFF)
                columns.severity[row] = max(columns.severity[row], SEVERITIES.index(finding.severity))
                self._scan.touch(row)
        self._read_findings = len(self._scan.finding_lines)
        return self._finding_list

    def _notes(self) -> list[str]:
        notes = self._trace.notes_at_start()
        for line in self._scan.gap_lines:
            gap = self._reader.record(line)
            assert isinstance(gap, Gap)
            notes.append(gap_note(gap))
        if self._fault:
            number, fact, next_step = self._fault
            notes.append(f"line {number}: {fact}; {next_step}")
        else:
            notes += [self._torn] if self._torn else []
            notes += self._trace.notes_at_end(self._scan.last, self._scan.frames)
        return notes


_STEP_LINES: Final = 20_000
"""How many lines are read between two reports of progress."""

_KEPT_FILTERS: Final = 8
_KEPT_SEARCHES: Final = 8


def open_view(path: str | os.PathLike[str], progress: Callable[[Progress], None] | None = None) -> View:
    """Open a recording: a trace, finished or still running, or a recording of another program.

    A million calls without an index take some seconds; ``progress`` is called meanwhile.

    Raises:
        TraceError: there is no recording at ``path``, or it cannot be read.
    """
    return View(GrowingTrace(path), progress)
