"""Finds the recordings in an object store, fetches them into a folder, and caches them for readers.

A recording in the store is one object, or several if it was rotated, compressed (``.jsonl.zst``) or not
(``.jsonl``). Sizes are bounded and names are made safe, whoever has written the objects.
"""

import os
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

from mcpproxy.base import files, paths
from mcpproxy.errors import UsageError
from mcpproxy.send.fleet import urls
from mcpproxy.send.fleet.object_contents import CACHE_BYTES, DiskBudget, download, stream_content

if TYPE_CHECKING:
    from mcpproxy.send.fleet.store import Store, StoredObject

PLAIN: Final = ".jsonl"
PACKED: Final = ".jsonl.zst"

_OTHER_FOLDERS: Final = ("manifests", "findings", "columns")
"""The folders of a store that hold no recordings."""
_PART: Final = re.compile(r"(.+)\.(\d{1,9})\.jsonl(?:\.zst)?")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._=@+-]")
_THREADS: Final = 8
"""How many recordings are fetched at a time."""
_MANY: Final = 20
"""If at least this many recordings are to be fetched, the user is told first."""


@dataclass(frozen=True, slots=True)
class StoredRecording:
    """One recording in a store: the keys of its files, in order."""

    keys: tuple[str, ...]

    @property
    def key(self) -> str:
        """The key of the first file, which names the recording."""
        return self.keys[0]


def stored_recordings(objects: Iterable["StoredObject"]) -> list[StoredRecording]:
    """Return the recordings among ``objects``, sorted by their keys without suffixes.

    ``NAME.2.jsonl`` and ``NAME.3.jsonl`` belong to ``NAME.jsonl`` in the same folder, if that exists.
    """
    keys = {stored.key for stored in objects if is_recording(stored.key)}
    stems = {_without_suffix(key) for key in keys}
    parts: dict[str, list[tuple[int, str]]] = {}
    for key in keys:
        match = _PART.fullmatch(key)
        if match and match[1] in stems:
            parts.setdefault(match[1], []).append((int(match[2]), key))
        else:
            parts.setdefault(_without_suffix(key), []).append((1, key))
    return [StoredRecording(tuple(key for _, key in sorted(files))) for _, files in sorted(parts.items())]


def is_recording(key: str) -> bool:
    """Whether an object is, by its name, a file of a recording."""
    return key.endswith((PLAIN, PACKED)) and key.partition("/")[0] not in _OTHER_FOLDERS


def _without_suffix(key: str) -> str:
    return key.removesuffix(PACKED).removesuffix(PLAIN)


def fetch(
    store: "Store", recording: StoredRecording, folder: str, known: Mapping[str, bytes] | None = None
) -> str:
    """Fetch a recording into the empty ``folder`` and decompress it. Return the path of its first file.

    The files get the names under which they were recorded. ``known``, key -> content, has the objects that
    were read already.

    Raises:
        StoreError: an object cannot be read.
        UsageError: an object is damaged or too large, or there is no room in ``folder``.
    """
    fetched = [os.path.join(folder, _file_name(key)) for key in recording.keys]
    budget = DiskBudget(folder)
    for key, path in zip(recording.keys, fetched, strict=True):
        with _explained(store, key, folder):
            download(store, key, path, budget, (known or {}).get(key))
    return fetched[0]


def _file_name(key: str) -> str:
    return urls.unescaped(key.rpartition("/")[2].removesuffix(".zst"))


@contextmanager
def _explained(store: "Store", key: str, folder: str) -> Generator[None]:
    """Turn an ``OSError`` into a ``UsageError`` with a next step."""
    try:
        yield
    except OSError as fault:
        fact = f"cannot be fetched to {folder} ({(fault.strerror or 'unwritable').lower()})"
        raise UsageError(store.where(key), fact, "make room there, or set XDG_CACHE_HOME") from None


def fetch_to_cache(url: str, *, tell: Callable[[str], object], packed_only: bool = False) -> dict[str, str]:
    """Fetch the recordings that ``url`` names, a folder or an object.

    Return the path of the first file of each -> its URL. They stay in this user's cache folder until it
    needs their room, so an object is rarely fetched twice. ``packed_only`` leaves out recordings that are not
    compressed. ``tell`` gets a line for the user before many are fetched.

    Raises:
        StoreError: the store or an object cannot be read.
        UsageError: there is no recording, there are too many bytes of them, or one cannot be fetched.
    """
    from mcpproxy.send.fleet.store import Store

    folder, name = url, ""
    if url.endswith((PLAIN, PACKED)):
        folder, _, name = url.rpartition("/")
    store = Store(folder)
    name = unquote(name) if store.scheme == "file" else name
    objects = [stored for stored in store.list() if not packed_only or stored.key.endswith(PACKED)]
    known = {stored.key: stored for stored in objects}
    wanted = [recording for recording in stored_recordings(objects) if not name or name in recording.keys]
    if name and not wanted:
        step = f"see what is there: mcpproxy list {store.url}"
        raise UsageError(url, "there is no such recording", step)
    if not wanted:
        raise UsageError(url, "no recordings in this folder", "a recording is a .jsonl or .jsonl.zst file")
    size = sum(known[key].size for recording in wanted for key in recording.keys)
    if size > CACHE_BYTES // 2:
        step = "name fewer, or judge parts of them: mcpproxy check --shard"
        raise UsageError(url, f"{len(wanted)} recordings of {size >> 30} GiB are too many to fetch", step)
    if len(wanted) >= _MANY:
        tell(f"reading {len(wanted):,} recordings from {store.url}")
    with ThreadPoolExecutor(_THREADS) as pool:
        fetched = list(pool.map(partial(_Cache(store).fetch, known), wanted))
    places = [store.where(recording.key) for recording in wanted]
    if store.scheme == "file":
        places = [f"file://{quote(place.removeprefix('file://'), safe='/=:')}" for place in places]
    return dict(zip(fetched, places, strict=True))


def cache_folder() -> str:
    """Return this user's cache folder. It may not exist."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.expanduser("~")
    elif sys.platform == "darwin":
        base = os.path.join(os.path.expanduser("~"), "Library", "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME", "")
        base = base if os.path.isabs(base) else os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "mcpproxy", "fetched")


class _CacheBudget(DiskBudget):
    """The room in the cache. To make room, files are deleted: the least recently read first.

    No file that this process needs is deleted.
    """

    __slots__ = ("_needed", "_others")

    def __init__(self, folder: str) -> None:
        cached: list[tuple[float, int, str]] = []
        for path, status in files.walk(os.path.realpath(folder)):
            cached.append((status.st_atime, status.st_size, os.path.join(folder, *path.split("/"))))
        self._others: Final = deque(sorted(cached))
        self._needed: Final[set[str]] = set()
        super().__init__(folder)
        self.left = min(self.left, CACHE_BYTES - sum(size for _, size, _ in cached))

    def keep(self, path: str) -> None:
        """Keep a file until this process ends."""
        with self._lock:
            self._needed.add(path)

    def _make_room(self) -> bool:
        while self.left < 0 and self._others:
            _, size, path = self._others.popleft()
            if path not in self._needed:
                with suppress(FileNotFoundError):  # another process has made room, too
                    os.unlink(path)
                self.left += size
        return self.left >= 0


class _Cache:
    """The files that were fetched from one store. Their paths repeat the URL, for people who look there."""

    def __init__(self, store: "Store") -> None:
        self._store = store
        where = f"{store.scheme}/{store.bucket}/{store.prefix}".replace("\\", "/")
        self._folder = os.path.join(cache_folder(), *map(_safe_folder_name, filter(None, where.split("/"))))
        paths.make_private(self._folder)
        self._budget: Final = _CacheBudget(cache_folder())

    def fetch(self, known: Mapping[str, "StoredObject"], recording: StoredRecording) -> str:
        """Fetch a recording unless the cache has it; return the path of its first file.

        ``known`` has the objects of the store by their keys.
        """
        fetched = [self._fetch_file(key, known[key]) for key in recording.keys]
        return fetched[0]

    def _fetch_file(self, key: str, stored: "StoredObject") -> str:
        *folders, _ = key.split("/")
        folder = os.path.join(self._folder, *map(_safe_folder_name, folders))
        path = os.path.join(folder, _file_name(key))
        self._budget.keep(path)
        # The cached file has the time of its object, so that an object that was replaced is fetched again.
        written_us = round(stored.written_s * 1e6)
        try:
            if os.stat(path).st_mtime_ns // 1000 == written_us:
                return path
        except OSError:
            pass
        with _explained(self._store, key, folder):
            paths.make_private(folder)
            files.replace(path, stream_content(self._store, key, self._budget), 0o600)
        os.utime(path, ns=(time.time_ns(), written_us * 1000))
        return path


def _safe_folder_name(name: str) -> str:
    """Return a part of a key as the name of a folder, safe on every system; other parts have other names."""
    safe, digest = _UNSAFE.sub("_", name), sha256(name.encode()).hexdigest()[:16]
    if safe != name:
        safe = f"{safe}-{digest}"
    is_safe = urls.is_file_name(safe) and not safe.endswith(".journal")  # a fetched recording has no journal
    return safe if is_safe else f"_{digest}"
