"""Where tables are written: a folder of this machine, or a folder of an object store.

Paths are relative to the place and have ``/`` between their parts. The list that names the files of tables is
written after them.
"""

import os
import re
import stat
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, TYPE_CHECKING, Final, TypeAlias, TypeGuard, cast

import orjson

from mcpproxy.base.files import Folder
from mcpproxy.base.system_words import os_reason
from mcpproxy.errors import UsageError
from mcpproxy.send.fleet import urls
from mcpproxy.send.fleet.columns.schema import TABLES

if TYPE_CHECKING:
    from mcpproxy.send.fleet.store import Store

WRITTEN: Final = "_written"
"""The folder of the lists."""

_SUFFIX: Final = ".parquet"
_LIST_BYTES: Final = 64 << 20
"""The size of the largest list that is read."""
_TABLE: Final = re.compile(
    rf"(?:{'|'.join(TABLES)})/date=[\w-]+/server=[^/\\]*/part-\d+of\d+-\d{{6,}}\.parquet"
)
"""The path of a file of a table; nothing else is read, or deleted."""


def open_place(named: str) -> "Place":
    """Return the place with the path or URL ``named``.

    Raises:
        UsageError: the URL cannot be used.
    """
    return StorePlace(named) if urls.is_url(named) else FolderPlace(named)


@dataclass(frozen=True, slots=True)
class TableList:
    """A list: which files are whole, and which recordings they hold. ``version`` is that of the columns."""

    version: int
    recordings: Sequence[str]
    files: Sequence[str]


def _decode_list(where: str, content: bytes) -> TableList:
    """Read a list of tables, which anybody may have written.

    Raises:
        UsageError: it is not a list of tables. ``where`` is its path or URL.
    """
    try:
        members: object = orjson.loads(content)
        if isinstance(members, dict):
            content_of = cast("dict[str, object]", members)
            version, recordings, tables = content_of["columns"], content_of["recordings"], content_of["files"]
            if isinstance(version, int) and _are_texts(recordings) and _are_texts(tables):
                if odd := next((path for path in tables if not _TABLE.fullmatch(path)), ""):
                    raise UsageError(where, f"names {odd!a}, which is no table", "export them again")
                return TableList(version, recordings, tables)
    except (orjson.JSONDecodeError, KeyError):
        pass
    raise UsageError(where, "is not a list of tables of mcpproxy", "name a new folder")


def _are_texts(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(item, str) for item in cast("list[object]", value))


class FolderPlace:
    """A folder of this machine. Links below it are not followed. Its methods raise ``OSError``."""

    def __init__(self, folder: str) -> None:
        self.where: Final = folder

    def _folder(self, *below: str) -> Folder:
        os.makedirs(self.where, exist_ok=True)
        folder = Folder(os.path.realpath(self.where))  # the user named it: it may be a link
        for name in below:
            folder = folder.inner(name, creates=True)
        return folder

    def has_others(self) -> bool:
        """Whether the place holds something, but no folder of lists."""
        names = os.listdir(self.where) if os.path.isdir(self.where) else []
        return bool(names) and WRITTEN not in names

    def lists(self) -> Iterator[tuple[str, TableList]]:
        """Yield the name of each list, and its content.

        Raises:
            UsageError: one of them cannot be read, or is not a list of tables.
        """
        lists = self._folder(WRITTEN)
        for name in lists.names():
            if name.endswith(".json"):
                where = os.path.join(self.where, WRITTEN, name)
                try:
                    content = lists.read(name, _LIST_BYTES)
                except OSError as fault:
                    raise UsageError(where, os_reason(fault), "name a new folder") from None
                yield name.removesuffix(".json"), _decode_list(where, content)

    def tables(self) -> Iterator[str]:
        """Yield the paths of the files of all tables; files with other names are left out."""
        top = self._folder()
        for table in filter(top.has, TABLES):
            dates = top.inner(table)
            for date in dates.names():
                if date.startswith("date="):
                    servers = dates.inner(date)
                    for server in servers.names():
                        paths = (f"{table}/{date}/{server}/{name}" for name in servers.inner(server).names())
                        yield from filter(_TABLE.fullmatch, paths)

    def remove(self, path: str) -> None:
        """Delete a file, which no list names. What is not a regular file stays."""
        *below, name = path.split("/")
        folder = self._folder(*below)
        if stat.S_ISREG(folder.stat(name).st_mode):
            folder.unlink(name)

    @contextmanager
    def new_table(self, path: str) -> Generator[IO[bytes]]:
        """Create the file ``path``, and yield it to be written."""
        *below, name = path.split("/")
        with open(self._folder(*below).create(name, 0o666), "wb") as file:
            yield file

    def put_list(self, name: str, content: bytes) -> None:
        """Write a list, after the files that it names."""
        self._folder(WRITTEN).put(f"{name}.json", content, 0o666)


class StorePlace:
    """A folder of an object store. Its methods are as in ``FolderPlace``, and raise ``StoreError``.

    Raises:
        UsageError: the URL cannot be used; in ``lists``, one of them is no list; in ``new_table``, the object
            exists already; in ``put_list``, it exists with other content.
    """

    def __init__(self, url: str) -> None:
        urls.check("export parquet", url)
        self.where: Final = url

    @cached_property
    def _store(self) -> "Store":
        from mcpproxy.send.fleet.store import Store

        return Store(self.where, creates=True)

    def has_tables(self) -> bool:
        """Whether there is a list of tables."""
        return any(True for _ in self._store.list(WRITTEN, batch=1))

    def has_others(self) -> bool:
        """Whether there is no list, but something that is not a file of a table."""
        return not self.has_tables() and any(
            stored.key.partition("/")[0] not in TABLES or not stored.key.endswith(_SUFFIX)
            for stored in self._store.list()
        )

    def lists(self) -> Iterator[tuple[str, TableList]]:
        for key in sorted(stored.key for stored in self._store.list(WRITTEN)):
            name = key.rpartition("/")[2]
            if name.endswith(".json"):
                content = self._store.read(key, _LIST_BYTES)
                yield name.removesuffix(".json"), _decode_list(self._store.where(key), content)

    def tables(self) -> Iterator[str]:
        for table in TABLES:
            yield from filter(_TABLE.fullmatch, (stored.key for stored in self._store.list(table)))

    def remove(self, path: str) -> None:
        self._store.delete(path)

    @contextmanager
    def new_table(self, path: str) -> Generator[IO[bytes]]:
        with TemporaryFile(prefix="mcpproxy-") as file:
            yield file
            is_new = self._store.create(path, file)
            if not is_new:
                raise UsageError(self._store.where(path), "is there already", "run one export at a time")

    def put_list(self, name: str, content: bytes) -> None:
        path = f"{WRITTEN}/{name}.json"
        if not self._store.create(path, content) and self._store.read(path) != content:
            raise UsageError(self._store.where(path), "is there already", "run one export at a time")


Place: TypeAlias = FolderPlace | StorePlace


@contextmanager
def fetch_tables(url: str) -> Generator[str]:
    """Fetch the tables in a store; yield their folder, which is deleted afterwards.

    Files that no list names are left out.

    Raises:
        StoreError: they cannot be read.
        UsageError: a list is damaged, or there is no room for the tables.
        OSError: a file cannot be written.
    """
    from mcpproxy.send.fleet.object_contents import DiskBudget, download
    from mcpproxy.send.fleet.store import Store

    store, place = Store(url), StorePlace(url)
    listed = {path for _, content in place.lists() for path in content.files}
    with TemporaryDirectory(prefix="mcpproxy-") as folder:
        budget = DiskBudget(folder)
        for path in sorted(listed):
            download(store, path, os.path.join(folder, *path.split("/")), budget)
        yield folder
