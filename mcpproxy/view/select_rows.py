"""Select the rows that pass a filter.

Each term is applied to the rows that the terms before it left. Terms that need only columns of the index come
first, then those that read lines of the recording, and free texts last. The first term takes about a tenth of
a second for a million rows.
"""

from array import array
from collections.abc import Callable, Generator, Iterable, Sequence
from itertools import compress
from operator import not_
from typing import Final, Protocol, TypeAlias, cast

from mcpproxy.view.calls import Outcome, Progress
from mcpproxy.view.filter import KIND_WORDS, STATUS, Filter, Range, Term
from mcpproxy.view.index.columns import FROM_SERVER, KINDS, OUTCOMES, SEVERITIES, Columns

Column: TypeAlias = "array[int]"
Rows: TypeAlias = "array[int]"
"""Numbers of rows, in order."""

_Candidates: TypeAlias = "range | array[int]"


class Filterable(Protocol):
    """The recording that a filter is applied to; ``View`` is one."""

    @property
    def columns(self) -> Columns:
        """The index."""
        ...

    def name(self, row: int) -> tuple[str, str | None]:
        """Return method and target of a row."""
        ...

    def names(self) -> list[tuple[str, str | None]]:
        """Return method and target by their numbers in the index."""
        ...

    def id_of(self, row: int) -> str:
        """Return the id of a request as JSON."""
        ...

    def session_name(self, number: int) -> str:
        """Return the name of a session."""
        ...

    def now_ns(self) -> int:
        """Return the time until which a request without an answer has waited."""
        ...

    def rows_with_rule(self, term: Term) -> set[int]:
        """Return the rows with a finding of the rules that ``term`` names."""
        ...

    def rows_with_text(self, texts: tuple[str, ...]) -> Generator[Progress, None, set[int]]:
        """Search the recording; return the rows that have one of the texts."""
        ...


_LATE: Final = {"id": 1, "text": 2}
"""Key -> when its term is applied; the terms with all other keys come before these."""


def select(recording: Filterable, wanted: Filter, first: int) -> Generator[Progress, None, Rows]:
    """Return the rows from ``first`` on that pass a filter; yield how far the search for a text is."""
    rows: _Candidates = range(first, recording.columns.rows + 1)
    for term in sorted(wanted.terms, key=lambda term: _LATE.get(term.key, 0)):
        if not rows:
            break
        if term.key == "text":
            rows_with_text = yield from recording.rows_with_text(cast("tuple[str, ...]", term.values))
            keep = map(rows_with_text.__contains__, rows)
        else:
            keep = _test(recording, term, rows)
        rows = array("I", compress(rows, map(not_, keep) if term.negated else keep))
    return rows if isinstance(rows, array) else array("I", rows)


def _test(recording: Filterable, term: Term, rows: _Candidates) -> Iterable[object]:
    """Return for each of ``rows`` whether the term holds, without regard to its ``-``."""
    columns = recording.columns
    match term.key:
        case "tool" | "prompt" | "resource" | "target" | "method":
            return _by_name(recording, term, rows)
        case "status":
            words = {outcome for value in term.values for outcome in STATUS[str(value)]}
            return _in_bytes(columns.outcome, {OUTCOMES.index(outcome) for outcome in words}, rows)
        case "kind":
            kinds = {KINDS.index(KIND_WORDS[str(value)]) for value in term.values}
            return _in_bytes(columns.kind, kinds | {kind | FROM_SERVER for kind in kinds}, rows)
        case "from":
            sides = {
                side for side in range(256) if ("server" if side & FROM_SERVER else "client") in term.values
            }
            return _in_bytes(columns.kind, sides, rows)
        case "severity":
            numbers = {number for number, word in enumerate(SEVERITIES) if word in term.values}
            return _in_bytes(columns.severity, numbers, rows)
        case "session":
            numbers = {
                n for n in set(columns.session) if term.matches(recording.session_name(n), prefix=True)
            }
            return map(numbers.__contains__, _picked(columns.session, rows))
        case "code":
            return map(term.has, _picked(columns.code, rows))
        case "call":
            return map(term.has, rows)
        case "frame":
            lines = _lines_in(columns, term)
            return (columns.first_line[row] in lines or columns.answer_line[row] in lines for row in rows)
        case "bytes":
            sizes = zip(
                _picked(columns.request_bytes, rows), _picked(columns.answer_bytes, rows), strict=True
            )
            return map(term.has, map(sum, sizes))
        case "latency":
            return _by_latency(recording, term, rows)
        case "rule":
            return map(recording.rows_with_rule(term).__contains__, rows)
        case "id":
            return (term.matches(recording.id_of(row)) for row in rows)
        case "text":
            raise AssertionError(term)


def _picked(column: Column, rows: _Candidates) -> Iterable[int]:
    """Return the values of ``rows`` in a column."""
    if isinstance(rows, range):
        return column[rows.start : rows.stop]
    return map(column.__getitem__, rows)


def _in_bytes(column: Column, values: set[int], rows: _Candidates) -> Iterable[int]:
    """Return for each row whether its value, a byte, is among ``values``; 5 ms for a million rows."""
    chosen = bytes(value in values for value in range(256))
    picked = _picked(column, rows)
    return (picked.tobytes() if isinstance(picked, array) else bytes(picked)).translate(chosen)


def _by_name(recording: Filterable, term: Term, rows: _Candidates) -> Iterable[bool]:
    """Return for each row whether its name fits. Each pair of method and target is compared only once."""
    columns, fits = recording.columns, _name_test(term)
    numbers = {number for number, name in enumerate(recording.names()) if fits(*name)}
    # All pairs that are too long or too many for the index share the number ``unnamed``.
    if columns.unnamed < 0:
        return map(numbers.__contains__, _picked(columns.name, rows))
    return (
        fits(*recording.name(row)) if columns.name[row] == columns.unnamed else columns.name[row] in numbers
        for row in rows
    )


_METHODS_WITH: Final = {
    "tool": ("tools/call",),
    "prompt": ("prompts/get",),
    "resource": ("resources/read", "resources/subscribe", "resources/unsubscribe"),
}


def _name_test(term: Term) -> Callable[[str, str | None], bool]:
    """Return a function that says whether a term holds for a method and target."""
    methods = _METHODS_WITH.get(term.key)

    def fits(method: str, target: str | None) -> bool:
        if term.key == "method":
            return term.matches(method)
        return target is not None and (methods is None or method in methods) and term.matches(target)

    return fits


def _by_latency(recording: Filterable, term: Term, rows: _Candidates) -> Sequence[bool]:
    """Return for each row whether its latency fits; for an open request, the time that it has waited."""
    columns, now_ns = recording.columns, recording.now_ns()
    ranges = [value for value in term.values if isinstance(value, Range)]
    low, high = max(ranges[0].low, 0), ranges[0].high  # -1 stands for no latency, and never fits
    if len(ranges) == 1:
        keep = [low <= latency_ns <= high for latency_ns in _picked(columns.latency_ns, rows)]
    else:
        keep = [ns >= 0 and term.has(ns) for ns in _picked(columns.latency_ns, rows)]
    waiting = bytes(_in_bytes(columns.outcome, {OUTCOMES.index(Outcome.NO_ANSWER)}, rows))
    position = waiting.find(1)
    while position >= 0:
        keep[position] = term.has(now_ns - columns.started_ns[rows[position]])
        position = waiting.find(1, position + 1)
    return keep


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
    return lines - {0}
