"""List the recordings in a folder: their peers, when each was made, and whether it runs or how it ended.

Only the beginning and the end of every file are read (``view.file_ends``), except of a short recording
without an end, and nothing is written. A recording in several files is one entry: each file names the
previous and the next one.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, TypeAlias

from mcpproxy.read.view.file_ends import FileEnds, file_ends
from mcpproxy.read.view.recording_entry import RecordingEntry
from mcpproxy.record.trace import chain
from mcpproxy.record.trace.records import Continued
from mcpproxy.record.trace.shipped_files import read_shipped

SUFFIX: Final = ".jsonl"
JOURNAL_SUFFIX: Final = SUFFIX + ".journal"


def recordings(folder: str) -> list[RecordingEntry]:
    """Return the recordings directly in ``folder``, in the order in which they began.

    Raises:
        OSError: the folder cannot be read.
    """
    return RecordingFolder(folder).entries()


class RecordingFolder:
    """The recordings directly in ``folder``.

    A file that has not changed is not read a second time, unless it has a journal: the traffic beside it that
    is not in the trace yet. Without ``follows``, a symbolic link is not a recording.
    """

    def __init__(self, folder: str, *, follows: bool = True) -> None:
        self._folder: Final = folder
        self._follows: Final = follows
        self._known: dict[str, tuple[_FileState, FileEnds]] = {}

    def entries(self) -> list[RecordingEntry]:
        """Return the recordings in the order in which they began.

        Raises:
            OSError: the folder cannot be read.
        """
        names = {name for name in os.listdir(self._folder) if name.endswith((SUFFIX, JOURNAL_SUFFIX))}
        if not self._follows:
            names = {name for name in names if not os.path.islink(os.path.join(self._folder, name))}
        known: dict[str, tuple[_FileState, FileEnds]] = {}
        ends_of: dict[str, FileEnds] = {}
        for name in sorted({name.removesuffix(".journal") for name in names}):
            path = os.path.join(self._folder, name)
            # The state of a recording with a journal depends on processes, not only on the file.
            state = None if f"{name}.journal" in names else _file_state(path)
            before = self._known.get(name)
            ends_of[name] = before[1] if state and before and before[0] == state else file_ends(path)
            if state:
                known[name] = state, ends_of[name]
        self._known = known
        _skip_empty(ends_of)
        _skip_shipped(self._folder, ends_of)
        entries = [_joined(ends, ends_of) for ends in ends_of.values() if ends.continues not in ends_of]
        return sorted(entries, key=lambda entry: (entry.started_ns, entry.path))


_FileState: TypeAlias = tuple[int, int, int]
"""Inode, size and time of the last change of a file."""


def _file_state(path: str) -> _FileState | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _skip_empty(ends_of: dict[str, FileEnds]) -> None:
    """Remove empty files that were just created, in which recordings will be continued."""
    for following in [ends.goes_on_in for ends in ends_of.values()]:
        entry = ends_of[following].entry if following in ends_of else None
        if entry is not None and entry.state == "unreadable" and not entry.size:
            del ends_of[following]


def _skip_shipped(folder: str, ends_of: dict[str, FileEnds]) -> None:
    """Link a recording's first file to the next that is left, if those between were uploaded and deleted."""
    for name, ends in list(ends_of.items()):
        if ends.continues or not ends.goes_on_in or ends.goes_on_in in ends_of:
            continue
        shipped = read_shipped(os.path.join(folder, name))
        if shipped is not None and (after := ends_of.get(shipped.continued.file)) is not None:
            ends_of[name] = replace(ends, goes_on_in=after.name)
            ends_of[after.name] = replace(_with_earlier_frames(after, shipped.continued), continues=name)


def recording(path: str) -> RecordingEntry:
    """Return the entry of one recording, ``unreadable`` if it cannot be read. ``path`` is its first file."""
    first = last = file_ends(path)
    ends_of = {first.name: first}
    while last.goes_on_in and last.goes_on_in not in ends_of and chain.is_name(last.goes_on_in):
        following = os.path.join(os.path.dirname(path), last.goes_on_in)
        if not os.path.exists(following):
            shipped = read_shipped(path) if last is first else None
            if shipped is None or not chain.is_name(shipped.continued.file):
                break
            following = os.path.join(os.path.dirname(path), shipped.continued.file)
            first.goes_on_in = shipped.continued.file
            if not os.path.exists(following):
                break
            last = _with_earlier_frames(file_ends(following), shipped.continued)
        else:
            last = file_ends(following)
        ends_of[last.name] = last
    return _joined(first, ends_of)


def _with_earlier_frames(following: FileEnds, last: Continued) -> FileEnds:
    """Return ``following`` with the frame count of the files before it, if it has no frame yet.

    ``last`` is the last record of those files.
    """
    entry = following.entry
    if entry.frames is not None or entry.transport == "http":
        return following
    return replace(following, entry=replace(entry, frames=sum(last.tally.frames.values())))


def _joined(first: FileEnds, ends_of: Mapping[str, FileEnds]) -> RecordingEntry:
    """Return the entry of a recording: the entry of its first file, with the end of its last file.

    ``ends_of`` has the files by name.
    """
    entry, joined_names, before, last = first.entry, {first.name}, first, first
    while (following := ends_of.get(last.goes_on_in)) is not None and following.name not in joined_names:
        joined_names.add(following.name)
        before, last = last, following
        entry = replace(entry, files=entry.files + 1, size=entry.size + last.entry.size)
    if last is first:
        return entry
    last_entry = last.entry
    if last_entry.frames is None and entry.transport != "http":  # it has no frame of its own yet
        last_entry = replace(last_entry, frames=before.entry.frames)
    if last_entry.state == "cut" and first.entry.state == "running":  # the journal is beside the first file
        last_entry = replace(last_entry, state="running", ended="running", ending="running")
    return replace(
        entry,
        state=last_entry.state,
        ended=last_entry.ended,
        ending=last_entry.ending,
        duration_ns=last_entry.duration_ns,
        frames=last_entry.frames,
        findings=last_entry.findings,
        calls=last_entry.calls,
    )
