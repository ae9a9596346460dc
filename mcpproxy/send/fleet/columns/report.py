"""The first questions about a fleet, answered from its tables by the queries in ``report_queries``."""

from pathlib import Path
from typing import Final

import duckdb

from mcpproxy.errors import UsageError
from mcpproxy.send.fleet.columns.arrow import Table, pa
from mcpproxy.send.fleet.columns.query_answer import TITLES, QueryAnswer
from mcpproxy.send.fleet.columns.schema import TABLES

QUERIES: Final = Path(__file__).parent / "report_queries"


def answer_queries(folder: str) -> tuple[QueryAnswer, ...]:
    """Return the answers to all queries from the tables in ``folder``.

    Raises:
        UsageError: the folder holds no tables, or they cannot be read.
    """
    try:
        with open_tables(folder) as connection:
            return tuple(answer_query(connection, name) for name in TITLES)
    except duckdb.Error as error:
        fact = f"the tables cannot be read: {str(error).splitlines()[0]}"
        raise UsageError(folder, fact, "write them again with mcpproxy export parquet") from None


def open_tables(folder: str) -> duckdb.DuckDBPyConnection:
    """Return a database with the tables in ``folder``.

    Raises:
        UsageError: there are none, or one of them is not a regular file.
        duckdb.Error: they cannot be read.
    """
    if not _has_tables(Path(folder) / "recordings"):
        raise UsageError(folder, "holds no tables", "make them with mcpproxy export parquet")
    connection = duckdb.connect(":memory:")
    connection.execute("SET TimeZone = 'UTC'")
    statements = (QUERIES / "tables.sql").read_text(encoding="utf-8").split(";")
    for name, statement in zip(TABLES, statements, strict=False):
        if _has_tables(Path(folder) / name):
            root = str(Path(folder).absolute()).replace("'", "''")
            connection.execute(statement.replace(f"'{name}/", f"'{root}/{name}/"))
        else:  # for example no findings
            schema = (
                TABLES[name].append(pa.field("date", pa.date32())).append(pa.field("server", pa.string()))
            )
            connection.register(name, schema.empty_table())
    return connection


def _has_tables(folder: Path) -> bool:
    """Whether there are files of a table.

    Raises:
        UsageError: one of them is not a regular file, but for example a pipe, for which the database would
            wait.
    """
    files = list(folder.rglob("*.parquet"))
    for path in files:
        if path.exists() and not path.is_file():
            raise UsageError(str(path), "is not a file", "write them again with mcpproxy export parquet")
    return bool(files)


def answer_query(connection: duckdb.DuckDBPyConnection, name: str) -> QueryAnswer:
    """Return the answer to the query ``name``, one of ``TITLES``.

    Raises:
        duckdb.Error: the tables cannot be read.
    """
    table: Table = connection.sql((QUERIES / f"{name}.sql").read_text(encoding="utf-8")).to_arrow_table()
    # Arrow knows time zones; fetchall() would need another package for them.
    columns = tuple(table.column_names)
    return QueryAnswer(
        name, columns, tuple(tuple(row[column] for column in columns) for row in table.to_pylist())
    )
