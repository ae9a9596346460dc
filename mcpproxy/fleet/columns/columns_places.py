"""Where tables are written: a folder of this machine, or a folder of an object store.

Paths are relative to the place and have ``/`` between their parts. The list that names the files of tables is
written after them.
"""

import json
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from mcpproxy.base import files
from mcpproxy.errors import UsageError
from mcpproxy.fleet import urls
from mcpproxy.fleet.columns.columns_schema import TABLES

if TYPE_CHECKING:
    from mcpproxy.fleet.store import Store

WRITTEN: Final = "_written"
"""The folder of the lists."""

_SUFFIX: Final = ".parquet"


def open_place(named: str) -> "Place":
    """Return the folder or URL ``named``.

    Raises:
        UsageError: the URL cannot be used.
    """
    return StorePlace(named) if urls.is_url(named) else FolderPlace(named)


class FolderPlace:
    """A folder of this machine. Its methods raise ``OSError``."""

    def __init__(self, folder: str) -> None:
        self.where: Final = folder

    def has_others(self) -> bool:
        """Whether there is something, and no list of tables."""
        lists = os.path.join(self.where, WRITTEN)
        return os.path.isdir(self.where) and bool(os.listdir(self.where)) and not os.path.isdir(lists)

    def lists(self) -> Iterator[tuple[str, Any]]:
        """Yield the name of each list, and its content."""
        lists = os.path.join(self.where, WRITTEN)
        os.makedirs(lists, exist_ok=True)
        for name in sorted(os.listdir(lists)):
            if name.endswith(".json"):
                with open(os.path.join(lists, name), "rb") as file:
                    yield name.removesuffix(".json"), json.load(file)

    def tables(self) -> Iterator[str]:
        """Yield the paths of the files of all tables."""
        for table in TABLES:
            for where, _, names in os.walk(os.path.join(self.where, table)):
                for name in names:
                    yield os.path.relpath(os.path.join(where, name), self.where).replace(os.sep, "/")

    def remove(self, path: str) -> None:
        """Delete a file that no list names."""
        os.unlink(os.path.join(self.where, *path.split("/")))

    @contextmanager
    def new_table(self, path: str) -> Generator[str]:
        """Yield where on this machine to write the file ``path``."""
        whole = os.path.join(self.where, *path.split("/"))
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        yield whole

    def put_list(self, name: str, content: bytes) -> None:
        """Write a list, after the files that it names."""
        files.replace(os.path.join(self.where, WRITTEN, f"{name}.json"), [content])


class StorePlace:
    """A folder of an object store. Its methods raise ``StoreError``."""

    def __init__(self, url: str) -> None:
        urls.check("export parquet", url)
        self.where: Final = url
        self._opened: Store | None = None

    @property
    def _store(self) -> "Store":
        if self._opened is None:
            from mcpproxy.fleet.store import Store

            self._opened = Store(self.where, creates=True)
        return self._opened

    def has_tables(self) -> bool:
        """Whether there is a list of tables."""
        return any(True for _ in self._store.list(WRITTEN, batch=1))

    def has_others(self) -> bool:
        return not self.has_tables() and any(
            each.key.partition("/")[0] not in TABLES or not each.key.endswith(_SUFFIX)
            for each in self._store.list()
        )

    def lists(self) -> Iterator[tuple[str, Any]]:
        for each in sorted(self._store.list(WRITTEN), key=lambda each: each.key):
            name = each.key.rpartition("/")[2]
            if name.endswith(".json"):
                yield name.removesuffix(".json"), json.loads(self._store.read(each.key))

    def tables(self) -> Iterator[str]:
        for table in TABLES:
            for each in self._store.list(table):
                yield each.key

    def remove(self, path: str) -> None:
        self._store.delete(path)

    @contextmanager
    def new_table(self, path: str) -> Generator[str]:
        with TemporaryDirectory(prefix="mcpproxy-") as folder:
            draft = os.path.join(folder, "table" + _SUFFIX)
            yield draft
            with open(draft, "rb") as file:
                is_new = self._store.create(path, file)
            if not is_new:
                raise UsageError(self._store.where(path), "is there already", "run one export at a time")

    def put_list(self, name: str, content: bytes) -> None:
        path = f"{WRITTEN}/{name}.json"
        if not self._store.create(path, content) and self._store.read(path) != content:
            raise UsageError(self._store.where(path), "is there already", "run one export at a time")


Place: TypeAlias = FolderPlace | StorePlace


@contextmanager
def fetched(url: str) -> Generator[str]:
    """Yield a folder with the tables in a store, which lasts as long. Files that no list names are left out.

    Raises:
        StoreError: they cannot be read.
    """
    from mcpproxy.fleet.store import Store

    store, place = Store(url), StorePlace(url)
    listed = {path for _, content in place.lists() for path in content["files"]}
    with TemporaryDirectory(prefix="mcpproxy-") as folder:
        for path in sorted(listed):
            target = os.path.join(folder, *path.split("/"))
            if not os.path.realpath(target).startswith(os.path.realpath(folder) + os.sep):
                raise UsageError(url, f"a list names {path!a}, which is no table", "export them again")
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "wb") as file:
                for piece in store.stream(path):
                    file.write(piece)
        yield folder
