"""Finds the closed files in a folder of recordings: nobody will change them, so they can be shipped.

A file is closed when its last record says so and nobody may write it again: the recording has ended, or the
recorder has saved that it writes a later file. A recording whose recorder was killed is completed first. A
file without such a record counts as closed, too, if nobody writes it and it was not changed for a minute.
"""

import os
import re
import stat
import time
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Final

from mcpproxy.base.files import open_regular
from mcpproxy.base.system_words import os_reason
from mcpproxy.errors import McpProxyError
from mcpproxy.record.recorder.checkpoint import read_checkpoint
from mcpproxy.record.recorder.liveness import is_relay_alive
from mcpproxy.record.relay import journal
from mcpproxy.record.trace import chain
from mcpproxy.record.trace.decode import decode
from mcpproxy.record.trace.records import CloseRecord, Continued, Header
from mcpproxy.send.fleet.running import read_journals

SUFFIX: Final = ".jsonl"
_HEADER_BYTES: Final = 1 << 20
"""How much of the first line of a file is read."""
_TAIL_BYTES: Final = 64 << 10
"""How much of the end of a file is read to find its last record."""
_QUIET_S: Final = 60.0
"""A file without a last record counts as closed once it has not been changed for this time."""

Signature = tuple[int, int, int, int]
"""Device, inode, size in bytes, time of the last change in nanoseconds: they change when the file does."""


@dataclass(frozen=True, slots=True)
class ClosedFile:
    """A closed file. ``first`` is the path of the earliest file of its recording that still exists."""

    path: str
    first: str
    header: Header
    signature: Signature
    has_ended: bool = False
    """Whether the whole recording has ended."""

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    @property
    def is_changed(self) -> bool:
        """Whether the file has changed since it was found, or is gone."""
        try:
            return signature_of(self.path) != self.signature
        except OSError:
            return True

    @property
    def part(self) -> int:
        """The place of the file in its recording, from 1."""
        return chain.number_of(self.name) if self.header.continues else 1


@dataclass(slots=True)
class FoundFiles:
    """The closed files of a folder, the number of recordings that are still being made, and the faults."""

    closed: list[ClosedFile] = field(default_factory=list[ClosedFile])
    running: int = 0
    strangers: list[str] = field(default_factory=list[str])
    """The names of files that mcpproxy did not record."""
    faults: dict[str, str] = field(default_factory=dict[str, str])
    """The name of a file -> why it cannot be shipped."""


def closed_files(folder: str, settled: Collection[tuple[str, Signature]] = (), only: str = "") -> FoundFiles:
    """Find the closed files directly in ``folder``, except those whose name and signature are in ``settled``.

    ``only``, the path of a first file, limits the search to one recording.

    Raises:
        OSError: the folder cannot be read.
    """
    found = FoundFiles()
    recordings = read_journals(folder, _list_names(folder, only))
    names = _list_names(folder, only)  # again: a recording that was completed may have new files
    running, firsts = recordings.running, dict[str, str]()
    found.faults = {os.path.basename(first): why for first, why in recordings.stuck.items()}
    for name in names:
        path = os.path.join(folder, name)
        if not name.endswith(SUFFIX):
            continue
        try:
            signature = signature_of(path)
            if (name, signature) in settled:
                continue
            header, last = _header_and_last(path)
            if header is None:
                if signature[2]:  # an empty one is being made
                    found.strangers.append(name)
                continue
            first = _first_of(path, firsts)
            if recordings.is_running(first):
                running.add(first)
                if not isinstance(last, Continued) or not _is_behind(first, name):
                    continue
            elif first in recordings.stuck:
                found.faults[name] = recordings.stuck[first]
                continue
            elif last is None and _is_changing(path, header):
                running.add(first)
                continue
        except FileNotFoundError:
            continue
        except (OSError, McpProxyError) as fault:
            found.faults[name] = _reason(fault)
            continue
        found.closed.append(ClosedFile(path, first, header, signature))
    _mark_ended(found, running, set(names))
    found.running = len(running)
    return found


def _list_names(folder: str, only: str) -> list[str]:
    names = sorted(os.listdir(folder))
    if not only:
        return names
    stem = os.path.basename(only).removesuffix(SUFFIX)
    own = re.compile(rf"{re.escape(stem)}(\.\d+)?\.jsonl(\.journal)?")
    return [name for name in names if own.fullmatch(name)]


def _mark_ended(found: FoundFiles, running: set[str], names: set[str]) -> None:
    """Mark the files of recordings that have ended.

    A recording with files that are not in ``names`` counts as running: they are newer, perhaps not shipped.
    """
    has_ended: dict[str, bool] = {}
    for index, file in enumerate(found.closed):
        if file.first not in has_ended:
            files = map(os.path.basename, chain.files_of(file.first))
            has_ended[file.first] = file.first not in running and names.issuperset(files)
            if not has_ended[file.first]:
                running.add(file.first)
        if has_ended[file.first]:
            found.closed[index] = replace(file, has_ended=True)


def _first_of(path: str, known: dict[str, str]) -> str:
    """Return ``chain.first_of(path)``; ``known`` keeps the answers, so that each file is read once."""
    passed: list[str] = []
    while path not in known:
        passed.append(path)
        before = chain.file_before(path)
        if before is None or before in passed:
            known[path] = path
        else:
            path = before
    for later in passed:
        known[later] = known[path]
    return known[path]


def signature_of(path: str) -> Signature:
    """Return the signature of a file.

    Raises:
        OSError: there is no such file, or it is not a regular one.
    """
    status = os.lstat(path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(None, "is not a regular file", path)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _is_behind(first: str, name: str) -> bool:
    """Whether the recorder writes a later file than ``name``, and would resume there after a kill."""
    start = read_checkpoint(journal.folder(first))
    return start is not None and chain.number_of(name) < chain.number_of(start.file)


def _is_changing(path: str, header: Header) -> bool:
    """Whether a file without a last record may still grow: perhaps it is being copied to this folder."""
    return is_relay_alive(header) or time.time() - os.stat(path).st_mtime < _QUIET_S


def last_record(path: str) -> CloseRecord | Continued | None:
    """Return the record that closes a file; ``None`` if it has none.

    Raises:
        OSError: the file cannot be read.
    """
    return _header_and_last(path)[1]


def _header_and_last(path: str) -> tuple[Header | None, CloseRecord | Continued | None]:
    """Return the header of a file and the record that closes it, each ``None`` if the file has none."""
    with open(open_regular(path), "rb") as file:
        header = record_of(file.readline(_HEADER_BYTES))
        file.seek(-min(os.fstat(file.fileno()).st_size, _TAIL_BYTES), os.SEEK_END)
        tail = file.read()
    last = record_of(tail[tail.rfind(b"\n", 0, -1) + 1 :]) if tail.endswith(b"\n") else None
    return (
        header if isinstance(header, Header) else None,
        last if isinstance(last, CloseRecord | Continued) else None,
    )


def record_of(line: bytes) -> object:
    """Return the record that a line of a recording holds; ``None`` if the line cannot be decoded."""
    try:
        return decode(line)
    except McpProxyError:
        return None


def _reason(fault: OSError | McpProxyError) -> str:
    if isinstance(fault, OSError):
        return os_reason(fault)
    return str(fault)
