"""One answer of the fleet report: its rows, for people and for programs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Final

from mcpproxy.base.visible import visible

TITLES: Final = {
    "overview": "Recordings of each server",
    "findings": "Findings for each rule, server and week",
    "latency": "How long the calls of each tool took",
    "changed_tools": "Tools whose definition has changed",
    "clients": "Clients that break the protocol",
    "context_cost": "What the definitions of tools cost",
    "old_revisions": "Who still speaks 2024-11-05",
}
"""Query -> the title of its rows. The report has them in this order."""


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """The rows that one query gives."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]

    @property
    def title(self) -> str:
        return TITLES[self.name]

    @property
    def number_columns(self) -> frozenset[int]:
        """The positions of the columns that hold numbers."""
        return frozenset(
            number
            for number in range(len(self.columns))
            if any(isinstance(row[number], int | float) for row in self.rows)
        )

    def texts(self) -> list[tuple[str, ...]]:
        """Return the rows for people; control characters of names are shown as escapes."""
        return [tuple(map(_shown, row)) for row in self.rows]


def as_object(answers: Sequence[QueryAnswer]) -> Mapping[str, Any]:
    """Return the answers as a JSON object: for each query a list of objects."""
    return {
        each.name: [dict(zip(each.columns, map(_json, row), strict=True)) for row in each.rows]
        for each in answers
    }


def _json(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, date) else value


def _shown(value: object) -> str:
    match value:
        case None:
            return "-"
        case datetime():
            return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M")
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.3f}".rstrip("0").rstrip(".")
        case _:
            return visible(str(value))
