"""The first questions about a fleet, answered from its tables by the queries in ``report_queries``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

import duckdb

from mcpproxy.base.visible import visible
from mcpproxy.errors import UsageError
from mcpproxy.fleet.columns.columns_arrow import Table, pa
from mcpproxy.fleet.columns.columns_schema import TABLES

QUERIES: Final = Path(__file__).parent / "report_queries"

TITLES: Final = {
    "overview": "Recordings of each server",
    "findings": "Findings for each rule, server and week",
    "latency": "How long the calls of each tool took",
    "changed_tools": "Tools whose definition has changed",
    "clients": "Clients that break the protocol",
    "context_cost": "What the definitions of tools cost",
    "old_revisions": "Who still speaks 2024-11-05",
}
"""Query -> what it shows. The report has them in this order."""


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """The rows that one query gives."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]

    @property
    def title(self) -> str:
        """What the rows show."""
        return TITLES[self.name]

    @property
    def right(self) -> frozenset[int]:
        """The columns with numbers."""
        return frozenset(
            number
            for number in range(len(self.columns))
            if any(isinstance(row[number], int | float) for row in self.rows)
        )

    def texts(self) -> list[tuple[str, ...]]:
        """Return the rows for people; control characters of names are shown as escapes."""
        return [tuple(map(_shown, row)) for row in self.rows]


def report(folder: str) -> tuple[QueryAnswer, ...]:
    """Return the answers to all queries from the tables in ``folder``.

    Raises:
        UsageError: the folder holds no tables, or they cannot be read.
    """
    try:
        with connect(folder) as connection:
            return tuple(answer(connection, name) for name in TITLES)
    except duckdb.Error as error:
        fact = f"the tables cannot be read: {str(error).splitlines()[0]}"
        raise UsageError(folder, fact, "write them again with mcpproxy export parquet") from None


def connect(folder: str) -> duckdb.DuckDBPyConnection:
    """Return a database with the tables in ``folder``.

    Raises:
        UsageError: there are none.
    """
    if not any((Path(folder) / "recordings").rglob("*.parquet")):
        raise UsageError(folder, "holds no tables", "make them with mcpproxy export parquet")
    connection = duckdb.connect(":memory:")
    connection.execute("SET TimeZone = 'UTC'")
    statements = (QUERIES / "tables.sql").read_text(encoding="utf-8").split(";")
    for name, statement in zip(TABLES, statements, strict=False):
        if any((Path(folder) / name).rglob("*.parquet")):
            root = str(Path(folder).absolute()).replace("'", "''")
            connection.execute(statement.replace(f"'{name}/", f"'{root}/{name}/"))
        else:  # nothing was found, for example
            schema = (
                TABLES[name].append(pa.field("date", pa.date32())).append(pa.field("server", pa.string()))
            )
            connection.register(name, schema.empty_table())
    return connection


def answer(connection: duckdb.DuckDBPyConnection, name: str) -> QueryAnswer:
    """Return the answer to one query."""
    found: Table = connection.sql((QUERIES / f"{name}.sql").read_text(encoding="utf-8")).to_arrow_table()
    # Arrow has zones of time in it; fetchall() would need one more package for them.
    columns = tuple(found.column_names)
    return QueryAnswer(
        name, columns, tuple(tuple(row[column] for column in columns) for row in found.to_pylist())
    )


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
