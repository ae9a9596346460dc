"""The results of a fleet: one file for each judged recording, written once.

``OUT/<key>/<name of the recording>.json``, where the key names the rules and the version of mcpproxy.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeAlias

from mcpproxy.base.files import Folder
from mcpproxy.base.system_words import os_reason
from mcpproxy.errors import UsageError
from mcpproxy.send.fleet import urls

if TYPE_CHECKING:
    from mcpproxy.send.fleet.store import Store

_SUFFIX: Final = ".json"


def open_results(out: str, key: str = "") -> "Results":
    """Return the results in the folder or URL ``out`` for the rules with this key.

    Without ``key``, ``out`` is a folder or URL that ends with one.

    Raises:
        UsageError: the URL cannot be used.
    """
    if urls.is_url(out):
        return StoreResults(out, key)
    return FolderResults(out, key)


class FolderResults:
    """Results in a folder of this machine. ``where`` is the folder of those with ``key``."""

    def __init__(self, out: str, key: str = "") -> None:
        self._out: Final = out
        self._key: Final = (key,) if key else ()
        self.where: Final = os.path.join(out, *self._key)

    def names(self) -> Iterator[str]:
        """Yield the names of the recordings that have a result."""
        for where, folders, names in os.walk(self.where):
            folders.sort()
            for name in sorted(names):
                if name.endswith(_SUFFIX):
                    path = os.path.relpath(os.path.join(where, name), self.where)
                    yield path.removesuffix(_SUFFIX).replace(os.sep, "/")

    def put_new(self, name: str, record: bytes) -> bool:
        """Write the result of a recording unless it has one; return whether it was written.

        The file appears under its name when it is whole.

        Raises:
            UsageError: it cannot be written.
        """
        *below, last = self._parts(name)
        try:
            self._folder(below, creates=True).put_new(last, record, 0o666)
        except FileExistsError:
            return False
        except OSError as error:
            reason = os_reason(error)
            raise UsageError(self.where, f"no result can be written: {reason}", "correct that") from None
        return True

    def read(self, name: str) -> bytes:
        """Return the result of a recording.

        Raises:
            UsageError: it cannot be read.
        """
        *below, last = self._parts(name)
        try:
            with open(self._folder(below).open(last), "rb") as file:
                return file.read()
        except OSError as error:
            path = os.path.join(self.where, *below, last)
            raise UsageError(path, os_reason(error), "judge the recording again with check --out") from None

    def _folder(self, below: Sequence[str], *, creates: bool = False) -> Folder:
        """Open a folder below ``out``, which may be a link itself; no other link is followed."""
        if creates:
            with suppress(FileExistsError):  # the next line refuses what is no folder
                os.makedirs(self._out)
        folder = Folder(os.path.realpath(self._out))
        for name in (*self._key, *below):
            folder = folder.inner(name, creates=creates)
        return folder

    def _parts(self, name: str) -> list[str]:
        return (name + _SUFFIX).split("/")


class StoreResults:
    """Results in an object store. Its methods raise ``StoreError``.

    Raises:
        UsageError: the URL cannot be used.
    """

    def __init__(self, url: str, key: str) -> None:
        urls.check(url, url)
        self._url: Final = url
        self._prefix: Final = key

    @property
    def where(self) -> str:
        """The URL of the results."""
        return f"{self._url.rstrip('/')}/{self._prefix}".rstrip("/")

    @cached_property
    def _store(self) -> "Store":
        from mcpproxy.send.fleet.store import Store

        return Store(self._url, creates=True)

    def names(self) -> Iterator[str]:
        """Yield the names of the recordings that have a result, in no order."""
        start = len(self._prefix) + 1 if self._prefix else 0
        for stored in self._store.list(self._prefix):
            if stored.key.endswith(_SUFFIX):
                yield stored.key[start:].removesuffix(_SUFFIX)

    def put_new(self, name: str, record: bytes) -> bool:
        """Write the result of a recording unless it has one; return whether it was written."""
        return self._store.create(self._key(name), record)

    def read(self, name: str) -> bytes:
        """Return the result of a recording."""
        return self._store.read(self._key(name))

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}{_SUFFIX}".lstrip("/")


Results: TypeAlias = FolderResults | StoreResults
