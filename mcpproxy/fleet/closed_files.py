"""Which files in a folder of recordings are closed: nobody will change them any more, so they can be shipped.

A file is closed when its last record says so and nobody may write it again: the recording has ended, or the
recorder has gone on to another file and saved that. A recording whose recorder was killed is completed first.
"""

import os
import re
import stat
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from mcpproxy.base.files import Folder, open_regular
from mcpproxy.base.patterns import pattern
from mcpproxy.errors import McpProxyError
from mcpproxy.opening import open_trace
from mcpproxy.recorder.checkpoint import read_checkpoint
from mcpproxy.recorder.liveness import is_relay_alive
from mcpproxy.recorder.lock import is_held
from mcpproxy.recorder.recovery import header_in_journal
from mcpproxy.relay import journal
from mcpproxy.trace import chain
from mcpproxy.trace.decode import decode
from mcpproxy.trace.records import CloseRecord, Continued, Header

SUFFIX: Final = ".jsonl"
_JOURNAL: Final = ".journal"
_PART: Final = pattern(r".*\.(\d{1,9})\.jsonl")
_HEADER_BYTES: Final = 1 << 20
_TAIL_BYTES: Final = 64 << 10
_QUIET_S: Final = 60.0
"""How long nothing may have changed a file without a last record before it counts as cut."""

Signature = tuple[int, int, int, int]
"""What changes when a file does: device, inode, size, time of the last change in nanoseconds."""


@dataclass(frozen=True, slots=True)
class ClosedFile:
    """A file that is closed. ``first`` is the path of the first file of its recording that is there."""

    path: str
    first: str
    header: Header
    signature: Signature
    has_ended: bool
    """Whether the whole recording has ended."""

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    @property
    def part(self) -> int:
        """The place of the file in its recording, from 1."""
        return _part(self.name) if self.header.continues else 1


@dataclass(slots=True)
class Found:
    """The closed files of a folder, how many recordings are still being made, and what is wrong."""

    closed: list[ClosedFile] = field(default_factory=list[ClosedFile])
    running: int = 0
    strangers: list[str] = field(default_factory=list[str])
    """The names of files that are no recordings of mcpproxy."""
    faults: dict[str, str] = field(default_factory=dict[str, str])
    """The name of a file -> why it cannot be shipped."""


def closed_files(folder: str, settled: Collection[tuple[str, Signature]] = (), only: str = "") -> Found:
    """Find the closed files directly in ``folder``, except those in ``settled``.

    With ``only``, the path of its first file, one recording is looked at.

    Raises:
        OSError: the folder cannot be read.
    """
    found = Found()
    names = sorted(os.listdir(folder))
    if only:
        stem = os.path.basename(only).removesuffix(SUFFIX)
        own = re.compile(rf"{re.escape(stem)}(\.\d+)?\.jsonl(\.journal)?")
        names = [name for name in names if own.fullmatch(name)]
    running: set[str] = set()
    for name in names:
        if name.endswith(SUFFIX + _JOURNAL) and name.removesuffix(_JOURNAL) not in names:
            first = os.path.join(folder, name.removesuffix(_JOURNAL))
            if _is_beginning(first):
                running.add(first)
            else:
                _complete(first, found)
    for name in names:
        path = os.path.join(folder, name)
        if not name.endswith(SUFFIX):
            continue
        try:
            signature = signature_of(path)
            if (name, signature) in settled:
                continue
            header, last = _ends(path)
            if header is None:
                if signature[2]:  # an empty one is being made
                    found.strangers.append(name)
                continue
            first = chain.first_of(path)
            if _is_running(first, header, found):
                running.add(first)
                if not isinstance(last, Continued) or not _is_behind(first, name):
                    continue
            else:
                header, last = _ends(path)  # it may have been completed
                signature = signature_of(path)
                if header is None or (last is None and _is_changing(path, header)):
                    running.add(first)
                    continue
        except FileNotFoundError:
            continue
        except (OSError, McpProxyError) as fault:
            found.faults[name] = _reason(fault)
            continue
        found.closed.append(ClosedFile(path, first, header, signature, first not in running))
    found.running = len(running)
    return found


def signature_of(path: str) -> Signature:
    """Return the signature of a file.

    Raises:
        OSError: there is no such file, or it is not a regular one.
    """
    status = os.lstat(path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(None, "is not a regular file", path)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _is_running(first: str, header: Header, found: Found) -> bool:
    """Whether a recording is still being made. One that was cut is completed.

    Raises:
        McpProxyError: it was cut and cannot be completed.
    """
    beside = journal.folder(first)
    try:
        folder = Folder(beside)
    except FileNotFoundError:
        return False
    if is_held(folder) or is_relay_alive(header, beside):
        return True
    _complete(first, found)
    if os.path.isdir(beside):
        raise McpProxyError(found.faults.get(os.path.basename(first)) or "its journal is still there")
    return False


def _is_beginning(first: str) -> bool:
    """Whether a recording has a journal and no file yet: its recorder starts later than the session."""
    try:
        folder = Folder(journal.folder(first))
        if is_held(folder):
            return True
        header = header_in_journal(folder.path)
    except (OSError, McpProxyError):
        return False
    return header is not None and is_relay_alive(header, folder.path)


def _complete(first: str, found: Found) -> None:
    """Complete a recording from its journal, if nobody records it any more."""
    try:
        trace = open_trace(first)
    except McpProxyError as fault:
        trouble = _reason(fault)
    else:
        trouble = trace.journal_fault
    if trouble:
        found.faults[os.path.basename(first)] = trouble


def _is_behind(first: str, name: str) -> bool:
    """Whether the recorder has gone on to a later file than ``name`` and would go on there after a kill."""
    start = read_checkpoint(journal.folder(first))
    return start is not None and _part(name) < _part(os.path.basename(start.file))


def _part(name: str) -> int:
    found = _PART.fullmatch(name)
    return int(found[1]) if found else 1


def _is_changing(path: str, header: Header) -> bool:
    """Whether somebody may still write a file that has no last record: it may be on its way to here."""
    return is_relay_alive(header) or time.time() - os.stat(path).st_mtime < _QUIET_S


def _ends(path: str) -> tuple[Header | None, CloseRecord | Continued | None]:
    """Return the header of a file, and the record that closes it; ``None`` if it has none."""
    with open(open_regular(path), "rb") as file:
        header = _decoded(file.readline(_HEADER_BYTES))
        file.seek(-min(os.fstat(file.fileno()).st_size, _TAIL_BYTES), os.SEEK_END)
        tail = file.read()
    last = _decoded(tail[tail.rfind(b"\n", 0, -1) + 1 :]) if tail.endswith(b"\n") else None
    return (
        header if isinstance(header, Header) else None,
        last if isinstance(last, CloseRecord | Continued) else None,
    )


def _decoded(line: bytes) -> object:
    try:
        return decode(line)
    except McpProxyError:
        return None


def _reason(fault: OSError | McpProxyError) -> str:
    if isinstance(fault, OSError):
        return (fault.strerror or str(fault)).lower()
    return str(fault)
