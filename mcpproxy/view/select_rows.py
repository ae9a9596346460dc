"""Which rows pass a filter.

Terms are applied one after the other, each to the rows that are left: first those that only look at columns
of the index, then those that read lines of the recording, and a free text at last.
"""

from array import array
from collections.abc import Callable, Generator, Iterable
from itertools import compress
from typing import Final, Protocol, TypeAlias

from mcpproxy.view.calls import Kind, Outcome, Progress
from mcpproxy.view.columns import FROM_SERVER, KINDS, OUTCOMES, SEVERITIES, Columns
from mcpproxy.view.filter import KIND_WORDS, STATUS, Filter, Term

Column: TypeAlias = "array[int]"
Rows: TypeAlias = "array[int]"
"""Numbers of rows, in order."""


class Recording(Protocol):
    """What a filter looks at."""

    columns: Columns

    def name(self, row: int) -> tuple[str, str | None]:
        """Return method and target of a row."""
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
        """Return the rows with a finding of these rules."""
        ...

    def rows_with_text(
        self, texts: tuple[str, ...], among: Iterable[int]
    ) -> Generator[Progress, None, set[int]]:
        """Search the recording; return the rows that have one of the texts."""
        ...


_ORDER: Final = {"id": 1, "text": 2}


def select(recording: Recording, wanted: Filter, first: int) -> Generator[Progress, None, Rows]:
    """Return the rows from ``first`` on that pass a filter, in order; say how far a search for a text is."""
    rows: Rows = array("I", range(first, recording.columns.rows + 1))
    for term in sorted(wanted.terms, key=lambda term: _ORDER.get(term.key, 0)):
        if not rows:
            break
        if term.key == "text":
            texts = tuple(value for value in term.values if isinstance(value, str))
            having = yield from recording.rows_with_text(texts, rows)
            keep = (row in having for row in rows)
        else:
            keep = _test(recording, term, rows)
        if term.negated:
            keep = (not each for each in keep)
        rows = array("I", compress(rows, keep))
    return rows


def _test(recording: Recording, term: Term, rows: Rows) -> Iterable[bool]:
    """Return for each of ``rows`` whether the term, taken without its ``-``, holds."""
    columns = recording.columns
    match term.key:
        case "tool" | "prompt" | "resource" | "target" | "method":
            return _by_name(recording, term, rows)
        case "status":
            words = {outcome for value in term.values for outcome in STATUS[str(value)]}
            return _in(columns.outcome, {OUTCOMES.index(outcome) for outcome in words}, rows)
        case "kind":
            kinds = {KINDS.index(KIND_WORDS[str(value)]) for value in term.values}
            return _in(columns.kind, kinds | {kind | FROM_SERVER for kind in kinds}, rows)
        case "from":
            sides = {FROM_SERVER if value == "server" else 0 for value in term.values}
            return ((kind & FROM_SERVER) in sides for kind in _picked(columns.kind, rows))
        case "severity":
            return _in(columns.severity, {SEVERITIES.index(value) for value in term.values}, rows)
        case "session":
            numbers = {n for n in set(columns.session) if term.matches(recording.session_name(n))}
            return _in(columns.session, numbers, rows)
        case "code":
            return map(term.has, _picked(columns.code, rows))
        case "call":
            return map(term.has, rows)
        case "frame":
            lines = _lines_in(columns, term)
            return (bool(lines & {columns.first_line[row], columns.answer_line[row]}) for row in rows)
        case "bytes":
            return (term.has(columns.request_bytes[row] + columns.answer_bytes[row]) for row in rows)
        case "latency":
            return _by_latency(recording, term, rows)
        case "rule":
            having = recording.rows_with_rule(term)
            return (row in having for row in rows)
        case "id":
            return (term.matches(recording.id_of(row)) for row in rows)
        case "text":
            raise AssertionError(term)


def _picked(column: Column, rows: Rows) -> Iterable[int]:
    """Return the values of ``rows`` in a column."""
    if rows and len(rows) == rows[-1] - rows[0] + 1:
        return column[rows[0] : rows[-1] + 1]
    return map(column.__getitem__, rows)


def _in(column: Column, values: set[int], rows: Rows) -> Iterable[bool]:
    return map(values.__contains__, _picked(column, rows))


def _by_name(recording: Recording, term: Term, rows: Rows) -> Iterable[bool]:
    """Compare names: each pair of method and target once, not each row."""
    columns, fits = recording.columns, _name_test(term)
    numbers = {number for number, name in enumerate(columns.names) if fits(*name)}
    if columns.unnamed < 0:
        return _in(columns.name, numbers, rows)
    return (
        fits(*recording.name(row)) if columns.name[row] == columns.unnamed else columns.name[row] in numbers
        for row in rows
    )


_METHOD_OF: Final = {"tool": ("tools/call",), "prompt": ("prompts/get",)}


def _name_test(term: Term) -> Callable[[str, str | None], bool]:
    if term.key == "method":
        return lambda method, target: term.matches(method)
    if term.key == "target":
        return lambda method, target: target is not None and term.matches(target)
    if term.key == "resource":
        return lambda method, target: (
            target is not None and method.startswith("resources/") and term.matches(target)
        )
    methods = _METHOD_OF[term.key]
    return lambda method, target: target is not None and method in methods and term.matches(target)


def _by_latency(recording: Recording, term: Term, rows: Rows) -> Iterable[bool]:
    """A request without an answer counts with the time that it has waited."""
    columns, now_ns, has = recording.columns, recording.now_ns(), term.has
    waiting = {KINDS.index(Kind.REQUEST), KINDS.index(Kind.EXCHANGE)}
    expects = OUTCOMES.index(Outcome.NONE)
    latencies, started, kinds, outcomes = (
        columns.latency_ns,
        columns.started_ns,
        columns.kind,
        columns.outcome,
    )
    for row in rows:
        latency_ns = latencies[row]
        if latency_ns >= 0:
            yield has(latency_ns)
        elif outcomes[row] != expects and kinds[row] & ~FROM_SERVER in waiting:
            yield has(now_ns - started[row])
        else:
            yield False


def _lines_in(columns: Columns, term: Term) -> set[int]:
    """Return the lines of the frames that a term names."""
    found: set[int] = set()
    for value in term.values:
        if isinstance(value, str):
            continue
        low = max(int(value.low), 0) if value.low > 0 else 0
        high = min(value.high, len(columns.line_of_seq) - 1)
        found.update(columns.line_of_seq[low : int(high) + 1])
        found.update(line for seq, line in columns.far_seqs.items() if seq in value)
    return found - {0}
