"""Writes recordings as Parquet: ``TABLE/date=2026-11-22/server=NAME/part-….parquet`` in a folder or URL.

A file holds the rows of many recordings. The files of one flush belong together: a list of them, written last
into ``_written``, says that they are whole and which recordings they hold. Files that no list names are left
from a run that was killed; the next run of the same shard (its part of the recordings) deletes them. So a
recording is in the tables exactly once.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Final
from urllib.parse import quote

from mcpproxy.base.system_words import os_reason
from mcpproxy.errors import UsageError
from mcpproxy.send.fleet.columns.arrow import Table, pa, pq
from mcpproxy.send.fleet.columns.frame_batch import FrameBatch
from mcpproxy.send.fleet.columns.places import open_place
from mcpproxy.send.fleet.columns.recording_rows import RecordingRows
from mcpproxy.send.fleet.columns.schema import TABLES, VERSION, in_file
from mcpproxy.send.fleet.judge.shard import Shard

_GROUP_ROWS: Final = 128 << 10
"""How many rows a row group of a file has at most."""
_FLUSH_ROWS: Final = 1 << 20
_FLUSH_RECORDINGS: Final = 20_000
"""How many rows or recordings stay in memory before they are written."""

_ROWS_AT_ONCE: Final = 1000
"""How many rows of a table stay Python objects before they are made into columns."""

_LONGEST_NAME: Final = 200
"""How many characters the name of a server's folder may have, or up to 209 if it was cut."""


class ColumnsWriter:
    """The tables in the folder or URL ``folder``, to which the recordings of one shard are added.

    Raises:
        UsageError: the folder holds something else, or tables of another version, or cannot be used.
        StoreError: the object store cannot be used.
    """

    def __init__(self, folder: str, shard: Shard) -> None:
        self._folder: Final = folder
        self._place: Final = open_place(folder)
        self._prefix: Final = f"part-{shard.index}of{shard.count}-"
        self.written: Final[set[str]] = set()
        """The names of the recordings that are in the tables."""
        self.rows: Final = dict.fromkeys(TABLES, 0)
        """How many rows this writer has added to each table."""
        self._next = 1
        self._waiting: dict[tuple[str, str], _Waiting] = {}
        self._waiting_names: list[str] = []
        self._waiting_rows = 0
        try:
            self._read_lists()
        except OSError as error:
            raise _write_error(folder, error) from None

    def add(self, name: str, rows: RecordingRows) -> None:
        """Add a recording. If many rows or recordings wait, write them all; errors are those of ``flush``."""
        waiting = self._waiting.setdefault((rows.date, rows.server), _Waiting())
        waiting.frames.add(name, rows.started_us, rows.scan)
        counts = {
            "frames": len(rows.scan.of_seq),
            **{table: len(of_table) for table, of_table in rows.rows.items()},
        }
        for table, count in counts.items():
            self._waiting_rows += count
            self.rows[table] += count
        for table, of_table in rows.rows.items():
            waiting.add(table, of_table)
        self._waiting_names.append(name)
        if self._waiting_rows >= _FLUSH_ROWS or len(self._waiting_names) >= _FLUSH_RECORDINGS:
            self.flush()

    def flush(self) -> None:
        """Write the recordings that were added.

        Raises:
            UsageError: the tables cannot be written.
            StoreError: the object store cannot be used.
        """
        if not self._waiting_names:
            return
        stem = f"{self._prefix}{self._next:06}"
        try:
            paths = [
                self._write_table(table, date, server, stem, rows)
                for (date, server), waiting in sorted(self._waiting.items(), key=lambda item: item[0])
                for table, rows in waiting.tables()
            ]
            listed = {"columns": VERSION, "recordings": self._waiting_names, "files": paths}
            self._place.put_list(stem, json.dumps(listed).encode())
        except OSError as error:
            raise _write_error(self._folder, error) from None
        self.written.update(self._waiting_names)
        self._waiting, self._waiting_names, self._waiting_rows = {}, [], 0
        self._next += 1

    def _write_table(self, table: str, date: str, server: str, stem: str, rows: Table) -> str:
        path = f"{table}/date={date}/server={_folder_name(server)}/{stem}.parquet"
        rows = rows.cast(in_file(TABLES[table]))
        with (
            self._place.new_table(path) as draft,
            pq.ParquetWriter(draft, rows.schema, compression="zstd", store_schema=False) as writer,
        ):
            writer.add_key_value_metadata({"mcpproxy.columns": str(VERSION)})
            writer.write_table(rows, row_group_size=_GROUP_ROWS)
        return path

    def _read_lists(self) -> None:
        """Read which recordings the tables hold; delete the files of this shard that no list names."""
        if self._place.has_others():
            raise UsageError(self._folder, "holds other files", "name a new folder")
        stems: set[str] = set()
        for stem, listed in self._place.lists():
            if listed.version != VERSION:
                fact = f"has tables of version {listed.version}, and this mcpproxy writes {VERSION}"
                raise UsageError(self._folder, fact, "name a new folder")
            self.written.update(listed.recordings)
            stems.add(stem)
        for path in list(self._place.tables()):
            name = path.rpartition("/")[2]
            if not name.startswith(self._prefix):
                continue  # of another shard
            stem = name.removesuffix(".parquet")
            if stem not in stems:
                self._place.remove(path)
            else:
                self._next = max(self._next, int(stem.removeprefix(self._prefix)) + 1)


class _Waiting:
    """Rows of the recordings of one day and server that are not written yet."""

    def __init__(self) -> None:
        self.frames: Final = FrameBatch()
        self._rows: Final[dict[str, list[Mapping[str, object]]]] = {}
        self._tables: Final[dict[str, list[Table]]] = {}

    def add(self, table: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Add rows of any table except ``frames``."""
        waiting = self._rows.setdefault(table, [])
        waiting += rows
        if len(waiting) >= _ROWS_AT_ONCE:  # as a table they take less memory
            self._convert(table)

    def tables(self) -> Iterator[tuple[str, Table]]:
        """Yield the tables that have rows."""
        for table in TABLES:
            if table == "frames":
                if len(self.frames):
                    yield table, self.frames.table()
            elif table in self._rows:
                self._convert(table)
                if parts := self._tables.get(table):
                    yield table, pa.concat_tables(parts)

    def _convert(self, table: str) -> None:
        if rows := self._rows[table]:
            self._tables.setdefault(table, []).append(pa.Table.from_pylist(rows, TABLES[table]))
            self._rows[table] = []


def _folder_name(server: str) -> str:
    """Return a server's name as the name of a folder, percent-encoded, as readers of tables decode it.

    A name that is too long is cut and gets a digest of the whole name.
    """
    name = quote(server, safe="")
    if len(name) <= _LONGEST_NAME:
        return name
    return quote(server[: _LONGEST_NAME // 12], safe="") + "-" + sha256(server.encode()).hexdigest()[:16]


def _write_error(folder: str, error: OSError) -> UsageError:
    fact = f"the tables cannot be written: {os_reason(error)}"
    return UsageError(folder, fact, "see to it and run it again")
