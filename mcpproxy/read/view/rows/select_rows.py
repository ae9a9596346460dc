"""Select the rows that pass a filter. A row is a request with its answer, or another record.

Each term is applied to the rows that passed the terms before it. Terms that need only columns of the index
come first, then those that read lines of the recording, and free texts last. The first term takes about a
tenth of a second for a million rows.
"""

from array import array
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from itertools import compress
from operator import not_
from typing import Final, TypeAlias, cast

from mcpproxy.base.slotted import slotted
from mcpproxy.judge.session.filter import KIND_WORDS, STATUS, Filter, Key, Range, Term
from mcpproxy.judge.session.outcomes import Outcome
from mcpproxy.read.view.calls import Progress
from mcpproxy.read.view.index.columns import FROM_SERVER, KINDS, OUTCOMES, SEVERITIES, Columns
from mcpproxy.read.view.index.indexed_trace import IndexedTrace
from mcpproxy.read.view.recorded_findings import RecordedFindings

Column: TypeAlias = "array[int]"
Rows: TypeAlias = "array[int]"
"""Numbers of rows, in order."""

_Candidates: TypeAlias = "range | array[int]"

_LATE: Final = {"id": 1, "text": 2}
"""Key -> when its term is applied; the terms with all other keys come before these."""


def select(
    index: IndexedTrace, findings: RecordedFindings, wanted: Filter, first: int
) -> Generator[Progress, None, Rows]:
    """Return the rows from ``first`` on that pass a filter; yield the progress of a search for a text."""
    rows: _Candidates = range(first, index.columns.rows + 1)
    for term in sorted(wanted.terms, key=lambda term: _LATE.get(term.key, 0)):
        if not rows:
            break
        if term.key == "text":
            rows_with_text = yield from index.rows_with_text(cast("tuple[str, ...]", term.values))
            keep = map(rows_with_text.__contains__, rows)
        else:
            keep = _TESTS[term.key](_Tested(index, findings, term, rows))
        rows = array("I", compress(rows, map(not_, keep) if term.negated else keep))
    return rows if isinstance(rows, array) else array("I", rows)


@slotted(frozen=True)
class _Tested:
    """A term, and the rows to test.

    A test returns for each row whether the term holds. It ignores ``negated``.
    """

    index: IndexedTrace
    findings: RecordedFindings
    term: Term
    rows: _Candidates

    @property
    def columns(self) -> Columns:
        return self.index.columns

    def values(self, column: Column) -> Iterable[int]:
        """Return the values of the rows in a column."""
        if isinstance(self.rows, range):
            return column[self.rows.start : self.rows.stop]
        return map(column.__getitem__, self.rows)

    def is_among(self, column: Column, wanted: Collection[int]) -> bytes:
        """Return for each row whether its value, a byte, is ``wanted``; 5 ms for a million rows."""
        chosen = bytes(value in wanted for value in range(256))
        values = self.values(column)
        return (values.tobytes() if isinstance(values, array) else bytes(values)).translate(chosen)


# Words: each means some values of a column.

_WORDS: Final[Mapping[str, tuple[str, Mapping[str, Collection[int]]]]] = {
    "status": (
        "outcome",
        {word: {OUTCOMES.index(outcome) for outcome in outcomes} for word, outcomes in STATUS.items()},
    ),
    "kind": (
        "kind",
        {word: {KINDS.index(kind), KINDS.index(kind) | FROM_SERVER} for word, kind in KIND_WORDS.items()},
    ),
    "from": ("kind", {"client": range(FROM_SERVER), "server": range(FROM_SERVER, 256)}),
    "severity": ("severity", {word: {number} for number, word in enumerate(SEVERITIES) if word}),
}
"""Key -> a column, and word -> the values of the column that the word means."""


def _by_word(tested: _Tested) -> Iterable[object]:
    column, values_of = _WORDS[tested.term.key]
    wanted = {value for word in tested.term.values for value in values_of[str(word)]}
    return tested.is_among(getattr(tested.columns, column), wanted)


# Names


def _by_name(tested: _Tested) -> Iterable[bool]:
    """Compare each pair of method and target only once."""
    reader, columns, fits = tested.index.reader, tested.columns, tested.term.names
    numbers = {number for number, name in enumerate(reader.names()) if fits(*name)}
    # All pairs that are too long or too many for the index share the number ``unnamed``.
    if columns.unnamed < 0:
        return map(numbers.__contains__, tested.values(columns.name))
    return (
        fits(*reader.name(row)) if columns.name[row] == columns.unnamed else columns.name[row] in numbers
        for row in tested.rows
    )


def _by_session(tested: _Tested) -> Iterable[bool]:
    sessions, name_of, term = tested.columns.session, tested.index.session_name, tested.term
    numbers = {number for number in set(sessions) if term.matches(name_of(number), prefix=True)}
    return map(numbers.__contains__, tested.values(sessions))


def _by_id(tested: _Tested) -> Iterable[bool]:
    return (tested.term.matches(tested.index.reader.call(row, 0).id) for row in tested.rows)


def _by_rule(tested: _Tested) -> Iterable[bool]:
    findings = tested.findings.with_rows()
    rows = {row for finding, row in findings if tested.term.matches(finding.rule)}
    return map(rows.__contains__, tested.rows)


# Numbers


def _by_code(tested: _Tested) -> Iterable[bool]:
    return map(tested.term.has, tested.values(tested.columns.code))


def _by_row(tested: _Tested) -> Iterable[bool]:
    return map(tested.term.has, tested.rows)


def _by_bytes(tested: _Tested) -> Iterable[bool]:
    columns = tested.columns
    sizes = zip(tested.values(columns.request_bytes), tested.values(columns.answer_bytes), strict=True)
    return map(tested.term.has, map(sum, sizes))


def _by_latency(tested: _Tested) -> Sequence[bool]:
    """Test the latency; for an open request, the time that it has waited."""
    columns, now_ns, term = tested.columns, tested.index.now_ns(), tested.term
    ranges = [value for value in term.values if isinstance(value, Range)]
    low, high = max(ranges[0].low, 0), ranges[0].high  # -1 means no latency, and never fits
    if len(ranges) == 1:
        keep = [low <= latency_ns <= high for latency_ns in tested.values(columns.latency_ns)]
    else:
        keep = [ns >= 0 and term.has(ns) for ns in tested.values(columns.latency_ns)]
    waiting = tested.is_among(columns.outcome, {OUTCOMES.index(Outcome.UNANSWERED)})
    position = waiting.find(1)
    while position >= 0:
        keep[position] = term.has(now_ns - columns.started_ns[tested.rows[position]])
        position = waiting.find(1, position + 1)
    return keep


def _by_frame(tested: _Tested) -> Iterable[bool]:
    columns, lines = tested.columns, _lines_in(tested.columns, tested.term)
    return (columns.first_line[row] in lines or columns.answer_line[row] in lines for row in tested.rows)


def _lines_in(columns: Columns, term: Term) -> set[int]:
    """Return the lines of the frames that a term names."""
    lines: set[int] = set()
    for value in term.values:
        if isinstance(value, Range):
            last = len(columns.line_of_seq) - 1
            low, high = max(value.low, 0), min(value.high, last)
            if low <= high:
                lines.update(columns.line_of_seq[int(low) : int(high) + 1])
            lines.update(line for seq, line in columns.far_seqs.items() if seq in value)
    return lines - {0}  # the lines of rows without an answer, and of numbers without a record


_TESTS: Final[Mapping[Key, Callable[[_Tested], Iterable[object]]]] = {
    "tool": _by_name,
    "prompt": _by_name,
    "resource": _by_name,
    "target": _by_name,
    "method": _by_name,
    "status": _by_word,
    "kind": _by_word,
    "from": _by_word,
    "severity": _by_word,
    "session": _by_session,
    "id": _by_id,
    "rule": _by_rule,
    "code": _by_code,
    "call": _by_row,
    "frame": _by_frame,
    "bytes": _by_bytes,
    "latency": _by_latency,
}
"""Key -> its test. For the key ``text`` the recording is searched instead."""
