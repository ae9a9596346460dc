"""List how rules cover the specification: each requirement, its rules, and whether a violation can be seen.

A requirement is *decided* if a check reports when it is broken, a *permission* if it says MAY and only limits
other rules, and *unobservable* if no recording can show that it was broken; then the catalogue of rules
gives the reason.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from mcpproxy.base.style import PLAIN, Colour, Style, count
from mcpproxy.protocol.rules import SEVERITY, Catalogue, Requirement
from mcpproxy.read.reports.text_table import table

State = Literal["decided", "permission", "unobservable"]

BEST_FIRST: Final[tuple[State, ...]] = ("decided", "unobservable", "permission")
"""The states, best first. If a requirement belongs to several rules, its best state counts."""

SERIES: Final = {
    "R": "of MCP",
    "D": "of MCP, features that it deprecates",
    "A": "of ACP",  # the Agent Client Protocol
    "X": "of no specification, off by default",
}
"""The prefixes of requirement numbers."""

COLOUR: Final[dict[str, Colour]] = {"decided": "green", "permission": "blue", "unobservable": "yellow"}


@dataclass(frozen=True, slots=True)
class RequirementRow:
    """One requirement. ``rules`` are the codes of its rules.

    ``why`` says why it is unobservable, and is empty if it is not.
    """

    id: str
    rules: tuple[str, ...]
    state: State
    text: str
    why: str


def rows(catalogue: Catalogue) -> tuple[RequirementRow, ...]:
    """Return every requirement once, sorted by id, even if it belongs to several rules."""
    by_id: dict[str, list[Requirement]] = {}
    for requirement in catalogue.requirements.values():
        by_id.setdefault(requirement.id, []).append(requirement)
    return tuple(_row(id, by_id[id]) for id in sorted(by_id))


def unaccounted(listed: Iterable[RequirementRow]) -> tuple[str, ...]:
    """Return the ids that ``listed`` lacks, in each series from number 1 to its highest number."""
    numbers: dict[str, set[int]] = {}
    for row in listed:
        series, _, number = row.id.rpartition("-")
        numbers.setdefault(series, set()).add(int(number))
    return tuple(
        f"{series}-{number:03}"
        for series, present in sorted(numbers.items())
        for number in range(1, max(present) + 1)
        if number not in present
    )


def lines(listed: tuple[RequirementRow, ...], style: Style = PLAIN) -> Iterator[str]:
    """Yield the requirements as a table, followed by the totals."""
    cells = [("ROW", "RULE", "STATE", "WHAT IT ASKS, OR WHY THE WIRE CANNOT SHOW IT")]
    cells += [(row.id, ", ".join(row.rules), row.state, row.why or row.text) for row in listed]
    width = max(len(row.id) for row in listed) + max(len(", ".join(row.rules)) for row in listed)
    width += len("unobservable") + 3 * len("  ")  # the third column, and the space between columns
    if style.width:
        cells = [(*row[:3], style.shorten(row[3], max(style.width - width, 20))) for row in cells]

    def paint(column: int, cell: str, padded: str) -> str:
        return style.paint(padded, COLOUR[cell]) if column == 2 else padded

    yield from table(cells, style, paint=paint)
    yield ""
    for series, description in SERIES.items():
        rows_of_series = [row for row in listed if row.id.startswith(f"{series}-")]
        if rows_of_series:
            totals = Counter(row.state for row in rows_of_series)
            yield (
                f"{count(len(rows_of_series), 'requirement')} {description}: {totals['decided']} decided, "
                f"{totals['permission']} permissions, {totals['unobservable']} unobservable"
            )
    yield f"unaccounted for: {', '.join(unaccounted(listed)) or 'none'}"


def as_objects(listed: Iterable[RequirementRow]) -> list[dict[str, object]]:
    """Return the requirements as JSON values."""
    return [
        {"id": row.id, "rules": list(row.rules), "state": row.state, "text": row.text, "why": row.why or None}
        for row in listed
    ]


def _row(id: str, requirements: list[Requirement]) -> RequirementRow:
    # The order is reversed, so that the first of several requirements in the same state replaces the others.
    by_state: dict[State, Requirement] = {
        _state(requirement): requirement for requirement in reversed(requirements)
    }
    state = min(by_state, key=BEST_FIRST.index)
    rules = tuple(requirement.rule for requirement in requirements)
    return RequirementRow(id, rules, state, requirements[0].text, by_state[state].unobservable)


def _state(requirement: Requirement) -> State:
    if requirement.unobservable:
        return "unobservable"
    if all(SEVERITY[word] is None for word in requirement.keywords.values()):
        return "permission"
    return "decided"
