"""The recordings that the page shows. Each is opened when the page first asks for it.

Work that reads files runs in a thread. Only one thread at a time may use a ``View``, so each has a lock.
"""

import os
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, TypeVar

import anyio
import anyio.to_thread

from mcpproxy.base import own_sockets, paths
from mcpproxy.errors import McpProxyError
from mcpproxy.gate.intercept.control import CONTROL_SUFFIX, control_path
from mcpproxy.read.view import folder
from mcpproxy.read.view.recording_entry import RecordingEntry
from mcpproxy.read.view.runs import ClientRun, runs
from mcpproxy.read.view.view import View, open_view
from mcpproxy.record.relay import journal
from mcpproxy.record.trace.recorded_folders import FolderBelow, folders_below

_T = TypeVar("_T")
_MAX_OPEN: Final = 8
"""How many recordings stay open at most, unless requests are using more."""
_MAX_CHANGES: Final = 1000
"""How many changes of a recording are remembered at most."""


class NoRecordingError(McpProxyError):
    """The page asks for a recording that is not, or no longer, in the folder."""


@dataclass(frozen=True, slots=True)
class RowChange:
    """The rows from ``first`` on are new or have changed; ``first`` is 0 if there are none.

    ``version`` is the number of changes so far.
    """

    version: int
    first: int


class OpenRecording:
    """A recording that is open. ``use`` gives its view to one task at a time."""

    def __init__(self, view: View) -> None:
        self._view: Final = view
        self._lock: Final = anyio.Lock()
        self._changes: Final[deque[RowChange]] = deque(maxlen=_MAX_CHANGES)
        self._version = 0
        self._searches = 0
        self.users = 0
        """How many requests are using the recording. It is not closed before they end."""

    async def use(self, work: Callable[[View], _T]) -> _T:
        """Return ``work(view)``, which runs in a thread."""
        async with self._lock:
            return await anyio.to_thread.run_sync(work, self._view)

    @asynccontextmanager
    async def searching(self) -> AsyncGenerator[None]:
        """Read no new rows within this context, so that the results of a search stay valid."""
        self._searches += 1
        try:
            yield
        finally:
            self._searches -= 1

    async def changes_since(self, version: int) -> tuple[RowChange, int, bool]:
        """Read new records unless a search runs, and return all changes after ``version`` as one change.

        If not all of them are remembered, every row counts as changed.

        Returns:
            The change, the number of rows, and whether the recording is still running.
        """
        async with self._lock:
            if not self._searches:
                refreshed = await anyio.to_thread.run_sync(self._view.refresh)
                if refreshed.first:
                    self._version += 1
                    self._changes.append(RowChange(self._version, refreshed.first))
            newer = [change.first for change in self._changes if change.version > version]
            is_known = len(newer) == self._version - version
            first = min(newer, default=0) if is_known else 1
            return RowChange(self._version, first), self._view.count(), self._view.running

    def close(self) -> None:
        """Close the files."""
        self._view.close()


class Library:
    """The recordings in a folder, or one recording. ``path`` is a folder or a file."""

    def __init__(self, path: str) -> None:
        self._path: Final = path
        self._lock: Final = anyio.Lock()
        self._entries_of: Final = folder.RecordingFolder(path) if os.path.isdir(path) else None
        self._entries: dict[str, RecordingEntry] = {}
        self._added: Final[list[str]] = []
        """The paths of the recordings that this page has made."""
        self._open: Final[OrderedDict[str, OpenRecording]] = OrderedDict()

    async def entries(self) -> dict[str, RecordingEntry]:
        """Return the recordings by their ids, the newest first."""
        async with self._lock:
            entries = await anyio.to_thread.run_sync(self._list_entries)
            self._entries = {id_of(entry.path): entry for entry in reversed(entries)}
            return self._entries

    def _list_entries(self) -> list[RecordingEntry]:
        if self._entries_of:
            return self._entries_of.entries()
        return [folder.recording(path) for path in (self._path, *self._added)]

    @property
    def folder(self) -> str:
        """The path of the folder or the one recording; empty for the folder of all recordings."""
        is_all = os.path.abspath(self._path) == os.path.abspath(paths.state_dir())
        return "" if is_all else os.path.abspath(self._path)

    async def below(self) -> tuple[list[FolderBelow], int]:
        """Return the first folders below this one that hold recordings, and the number of others.

        Each has the command that opens its page. The result is empty if the folder itself has recordings, or
        if the library is one recording.
        """
        if self._entries or self._entries_of is None:
            return [], 0
        return await anyio.to_thread.run_sync(folders_below, os.path.abspath(self._path), _command)

    def close(self) -> None:
        """Close the recordings that are open."""
        while self._open:
            self._open.popitem()[1].close()

    def controlled_paths(self) -> list[str]:
        """Return the paths of recordings with a control socket: their sessions may hold messages."""
        paths = [self._path]
        if os.path.isdir(self._path):
            names = set(os.listdir(self._path))
            traces = (name.removesuffix(CONTROL_SUFFIX) for name in names if name.endswith(CONTROL_SUFFIX))
            paths = [
                os.path.join(self._path, name)
                for name in traces
                if not names.isdisjoint((name, journal.folder(name)))
            ]
        return [path for path in paths if own_sockets.is_own(control_path(path))]

    def add(self, path: str) -> str:
        """Add a recording that this page has made, and return its id.

        If the library is a folder, it lists the recording anyway.
        """
        self._added.append(path)
        return id_of(path)

    def runs(self) -> list[ClientRun]:
        """Return the runs with several recordings, among those that ``entries`` returned last.

        A run is the recordings of the servers that one client process used.
        """
        return [run for run in runs(self._entries.values()) if len(run.entries) > 1]

    async def entry(self, id: str) -> RecordingEntry:
        """Return one recording.

        Raises:
            NoRecordingError: no recording has this id.
        """
        entry = self._entries.get(id) or (await self.entries()).get(id)
        if entry is None:
            raise NoRecordingError("This recording is not in the folder any more.")
        return entry

    @asynccontextmanager
    async def opened(self, id: str) -> AsyncGenerator[OpenRecording]:
        """Yield an open recording.

        Beyond ``_MAX_OPEN``, the recording that was used least recently is closed, unless a request uses it.

        Raises:
            NoRecordingError: no recording has this id.
            McpProxyError: the recording cannot be read.
        """
        entry = await self.entry(id)
        async with self._lock:
            recording = self._open.get(id)
            if recording is None:
                recording = OpenRecording(await anyio.to_thread.run_sync(open_view, entry.path))
                self._open[id] = recording
            self._open.move_to_end(id)
            idle = [idle_id for idle_id, opened in self._open.items() if not opened.users and idle_id != id]
            for idle_id in idle[: max(0, len(self._open) - _MAX_OPEN)]:
                self._open.pop(idle_id).close()
        recording.users += 1
        try:
            yield recording
        finally:
            recording.users -= 1


def _command(path: str) -> list[str]:
    return ["mcpproxy", "ui", path]


def id_of(path: str) -> str:
    """Return the id by which the addresses of the page name the recording at ``path``."""
    return sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:12]
