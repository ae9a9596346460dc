"""One answer of the fleet report: its rows, for people and for programs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Final, cast

from mcpproxy.base.visible import visible

_AT_LEAST: Final = "at_least"
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
    """The rows that one query gives.

    A last column ``at_least`` names the columns of a row whose numbers are only lower bounds. For people
    such a number has a ``>``, and ``heads`` and ``texts`` are without that column.
    """

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]

    @property
    def title(self) -> str:
        return TITLES[self.name]

    @property
    def heads(self) -> tuple[str, ...]:
        """The names of the columns for people."""
        return tuple(name.replace("_", " ") for name in self.columns if name != _AT_LEAST)

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
        if _AT_LEAST not in self.columns:
            return [tuple(map(_shown, row)) for row in self.rows]
        return [
            tuple(
                f"{'>' if name in cast('list[str]', row[-1]) else ''}{_shown(value)}"
                for name, value in zip(self.columns[:-1], row, strict=False)
            )
            for row in self.rows
        ]


def as_object(answers: Sequence[QueryAnswer]) -> Mapping[str, Any]:
    """Return the answers as a JSON object: for each query a list of objects."""
    return {
        answer.name: [dict(zip(answer.columns, map(_json, row), strict=True)) for row in answer.rows]
        for answer in answers
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
