"""The recordings of a fleet: their names, and how one of them is opened on this machine.

A name is the path of the first file of a recording in its folder or URL, with ``/`` between its parts and
without ``.zst``.
"""

import os
import shutil
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, TypeAlias

from mcpproxy.base import paths
from mcpproxy.base.patterns import pattern
from mcpproxy.errors import UsageError
from mcpproxy.record.trace import chain
from mcpproxy.send.fleet import fetch, urls

if TYPE_CHECKING:
    from mcpproxy.send.fleet.store import Store

_SUFFIX: Final = ".jsonl"
_JOURNAL_SUFFIX: Final = ".jsonl.journal"
_LATER_FILE: Final = pattern(r".*\.\d+\.jsonl")
"""The name that a later file of a rotated recording has."""


@dataclass(frozen=True, slots=True)
class FleetRecording:
    """A recording by its name; in a store, with the keys of its files.

    ``size`` is in bytes: in a store that of its objects, in a folder that of its first file.
    """

    name: str
    keys: tuple[str, ...] = ()
    size: int = 1 << 50
    """If it is unknown, larger than any limit."""


def open_corpus(source: str, scratch: str = "") -> "Corpus":
    """Return the recordings in the folder or URL ``source``.

    ``scratch`` is an empty folder into which recordings are fetched from a URL, one at a time. Without it,
    each is fetched into a new folder.

    Raises:
        UsageError: there is no such folder, or the URL cannot be used.
    """
    if urls.is_url(source):
        return StoreCorpus(source, scratch)
    if not os.path.isdir(source):
        raise UsageError(source, "is not a folder", "name a folder of recordings")
    return FolderCorpus(source)


def location(named: str) -> str:
    """Return a folder or URL that means the same in another process: the path of a folder is absolute."""
    return named if urls.is_url(named) else os.path.abspath(named)


class FolderCorpus:
    """The recordings in a folder and below it."""

    def __init__(self, folder: str) -> None:
        self._folder: Final = folder

    def recordings(self) -> Iterator[FleetRecording]:
        """Yield the recordings, those of one folder in order. A rotated one has the name of its first file.

        In the state folder, where recordings are kept by default, the sessions of ``mcpproxy validate`` and
        ``fuzz`` are left out.
        """
        for where, folders, files in os.walk(self._folder):
            recorded = sorted(name for name in folders if not name.endswith(_JOURNAL_SUFFIX))
            folders[:] = paths.without_probes(where, recorded)
            for name in sorted(files):
                if not name.endswith(_SUFFIX):
                    continue
                path = os.path.join(where, name)
                if _LATER_FILE.fullmatch(name) and chain.first_of(path) != path:
                    continue
                try:
                    size = os.stat(path).st_size
                except OSError:
                    size = 0  # opening it will say why
                yield FleetRecording(os.path.relpath(path, self._folder).replace(os.sep, "/"), size=size)

    @contextmanager
    def opened(self, recording: FleetRecording) -> Generator[str]:
        """Yield the path of a recording."""
        yield os.path.join(self._folder, *recording.name.split("/"))


class StoreCorpus:
    """The recordings in an object store. One is fetched when it is opened, and deleted afterwards."""

    def __init__(self, url: str, scratch: str = "") -> None:
        urls.check(url, url)
        self._url: Final = url
        self._scratch: Final = scratch

    @cached_property
    def _store(self) -> "Store":
        from mcpproxy.send.fleet.store import Store

        return Store(self._url)

    def recordings(self) -> Iterator[FleetRecording]:
        """Yield the recordings in order.

        Raises:
            StoreError: the store cannot be listed.
        """
        objects = list(self._store.list())
        sizes = {stored.key: stored.size for stored in objects}
        for recording in fetch.stored_recordings(objects):
            size = sum(sizes[key] for key in recording.keys)
            yield FleetRecording(recording.key.removesuffix(".zst"), recording.keys, size)

    def packed(self, recording: FleetRecording, limit: int) -> tuple[bytes, ...]:
        """Return the objects of a recording as they are stored, each of at most ``limit`` bytes.

        Raises:
            StoreError: one cannot be read, or is larger.
        """
        return tuple(self._store.read(key, limit) for key in recording.keys)

    @contextmanager
    def opened(self, recording: FleetRecording, packed: tuple[bytes, ...] = ()) -> Generator[str]:
        """Fetch a recording; yield its path, in a folder that is deleted or emptied afterwards.

        ``packed`` are its objects if they were read already.

        Raises:
            McpProxyError: the recording cannot be fetched.
        """
        known = dict(zip(recording.keys, packed, strict=False))
        with self._empty_folder() as folder:
            yield fetch.fetch(self._store, fetch.StoredRecording(recording.keys), folder, known)

    @contextmanager
    def _empty_folder(self) -> Generator[str]:
        """Yield an empty folder, which is emptied or deleted afterwards.

        It is ``scratch`` if there is one: making a folder takes a tenth of the time of a recording.
        """
        if not self._scratch:
            with TemporaryDirectory(prefix="mcpproxy-") as folder:
                yield folder
            return
        try:
            yield self._scratch
        finally:
            with os.scandir(self._scratch) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        shutil.rmtree(entry.path)
                    else:
                        os.unlink(entry.path)


Corpus: TypeAlias = FolderCorpus | StoreCorpus
