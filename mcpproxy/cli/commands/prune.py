"""``mcpproxy prune``: delete old recordings: traces, and journals, the folders that they are made from."""

import os
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from mcpproxy.base import files, own_sockets, paths
from mcpproxy.base.files import Folder
from mcpproxy.base.style import count, duration, size
from mcpproxy.base.visible import visible
from mcpproxy.cli import find_traces
from mcpproxy.cli.arguments import Parser, UsageError, age
from mcpproxy.cli.terminal import emit, tell
from mcpproxy.gate.intercept.control import control_path
from mcpproxy.record.recorder import journal_reader, liveness, lock
from mcpproxy.record.relay import journal
from mcpproxy.record.trace import chain, shipped_files
from mcpproxy.record.trace.decode import decode
from mcpproxy.record.trace.members import NotARecordError
from mcpproxy.record.trace.records import Header

EPILOG: Final = """\
A recording is as old as the last change of its files. A running recording is never deleted, and neither is a
file that is not a recording, is a link, has a second name, or belongs to somebody else.

  mcpproxy prune --older-than 30d --dry-run    say what would be deleted
  mcpproxy prune --older-than 30d --yes        delete without a question
  mcpproxy prune --older-than 7d --yes DIR     of the folder DIR

A session does the same for its folder: mcpproxy --keep 30d -- SERVER"""

_HEADER_BYTES: Final = 1 << 20
"""A longer first line is not a header."""
_TAIL_BYTES: Final = 1 << 16
"""How many bytes at the end of a file are searched for its last record."""
_LAST_RECORDS: Final = (b'{"type":"close"', b'{"type":"continued"')
"""The beginnings of the records that end a file of a recording."""


@dataclass(frozen=True, slots=True)
class OldRecording:
    """A recording that may be deleted: its folder, the names of its files, their size (bytes) and age.

    ``names`` begins with the first file, or with the journal if there is no file. If they exist, the control
    socket, the note about shipped files, the later files and the journal follow.
    """

    folder: str
    names: tuple[str, ...]
    size: int
    age_s: float


@dataclass(frozen=True, slots=True)
class KeptRecording:
    """A recording that stays. ``why`` is empty if there is no need to tell the user."""

    folder: str
    name: str
    why: str


def run(argv: list[str]) -> int:
    """Delete the recordings that are older than an age; return 2 if one could not be deleted.

    Raises:
        UsageError: the arguments are not valid, or the user does not confirm the deletion.
    """
    parser = Parser(
        "prune", "Delete old recordings of a folder, also those of validate and fuzz in it.", EPILOG
    )
    add = parser.add_argument
    add("folder", nargs="?", metavar="DIR", help="the folder of recordings (default: the state directory)")
    add("--older-than", type=age, required=True, metavar="AGE", help="30d; units m (minutes), h, d, w")
    add("--dry-run", action="store_true", help="delete nothing, and say what would be deleted")
    add("--yes", action="store_true", help="do not ask")
    options = parser.parse_args(argv)
    path: str = options.folder or paths.state_dir()
    if options.folder and not os.path.isdir(path):
        raise UsageError(path, "no such folder", "name a folder of recordings")
    if not os.path.isdir(path):
        tell(f"nothing recorded yet in {path}")
        return 0
    try:
        folder = Folder(path)
    except OSError as fault:
        reason = (fault.strerror or "cannot be opened").lower()
        raise UsageError(path, reason, "name another folder") from None
    examined = list(old_recordings(folder, options.older_than))
    for run_path in _run_folders(path):
        with suppress(OSError):  # it is a link, or another process has just deleted it
            examined += old_recordings(Folder(run_path), options.older_than)
    old = [recording for recording in examined if isinstance(recording, OldRecording)]
    emit(_recording_line(recording, path) for recording in old)
    for recording in examined:
        if isinstance(recording, KeptRecording):
            kept_path = os.path.join(recording.folder, recording.name)
            tell(f"{os.path.relpath(kept_path, path)}: kept, {recording.why}")
    if not old:
        tell(f"nothing to delete in {path}")
        return 0
    what = _total(old, path)
    if options.dry_run:
        tell(f"would delete {what}")
        return 0
    if not options.yes:
        _confirm_deletion(what)
    deleted: list[OldRecording] = []
    for recording in old:
        if fault := _delete_recording(recording, options.older_than):
            tell(fault)
        else:
            deleted.append(recording)
    for emptied in {recording.folder for recording in deleted} - {path}:
        with suppress(OSError):  # it is not empty
            os.rmdir(emptied)
    remaining = len(old) - len(deleted)
    tell(f"deleted {_total(deleted, path)}" + (f"; {remaining} could not be deleted" if remaining else ""))
    return 2 if remaining else 0


def _total(old: Sequence[OldRecording], path: str) -> str:
    return f"{count(len(old), 'recording')}, {size(sum(recording.size for recording in old))}, in {path}"


def _run_folders(path: str) -> Iterator[str]:
    """Yield the folder of each run of ``validate``, then of ``fuzz``, the oldest first."""
    for kind in paths.PROBES:
        try:
            runs = Folder(os.path.join(path, kind))
        except OSError:  # there were none, or it is a link
            continue
        yield from (os.path.join(runs.path, run_name) for run_name in runs.names())


def old_recordings(folder: Folder, age_s: float) -> Iterator[OldRecording | KeptRecording]:
    """Yield the recordings in ``folder`` that nobody has changed for ``age_s`` seconds, the oldest first.

    Those that must not be deleted are yielded as ``KeptRecording``, however old they are, if there is a
    reason to tell the user.
    """
    for path in reversed(find_traces.recent(folder.path)):
        examined = _examine_recording(folder, os.path.basename(path))
        if isinstance(examined, KeptRecording):
            if examined.why:
                yield examined
        elif examined.age_s >= age_s:
            yield examined


def _examine_recording(folder: Folder, first: str) -> OldRecording | KeptRecording:
    """Return the files of a recording if they may be deleted, or else why it is kept.

    ``first`` is the name of its first file, which does not exist if only the journal was written. No reason
    is given for a running recording, nor for a regular file that is not a recording.
    """
    parts: list[_Part] = []
    try:
        for part in _parts(folder, first):
            if isinstance(part, str):
                return KeptRecording(folder.path, first, part)
            parts.append(part)
    except OSError:  # another process deletes it at this moment
        return KeptRecording(folder.path, first, "")
    names = [part.name for part in parts]
    note = shipped_files.note_path(first)
    if names and folder.has(note):
        names.insert(1, note)
    if names and own_sockets.is_own(control_path(os.path.join(folder.path, first))):
        names.insert(1, control_path(first))  # left behind by a session that was killed
    if not names:  # another process has just deleted the recording
        return KeptRecording(folder.path, first, "")
    changed_s = max(0.0, *(part.changed_s for part in parts))
    age_s = max(time.time() - changed_s, 0.0)
    return OldRecording(folder.path, tuple(names), sum(part.size for part in parts), age_s)


@dataclass(frozen=True, slots=True)
class _Part:
    """A file of a recording, or the journal beside it, that may be deleted.

    ``size`` is in bytes, ``changed_s`` the time of the last change in seconds since 1970.
    """

    name: str
    size: int
    changed_s: float


def _parts(folder: Folder, first: str) -> Iterator[_Part | str]:
    """Yield the parts of a recording; for a part that must not be deleted, why the recording is kept."""
    if folder.has(first):
        chained = chain.files_of(os.path.join(folder.path, first))
        for number, path in enumerate(chained):
            yield _trace_part(folder, path, chained[:number])
    beside = journal.folder(first)
    if folder.has(beside):
        yield _journal_part(folder, beside)


def _trace_part(folder: Folder, path: str, earlier: Sequence[str]) -> _Part | str:
    """Examine one file; ``earlier`` are the files of the recording before it.

    If it must not be deleted, return the reason, which is empty if there is no need to tell the user.
    """
    name = os.path.basename(path)
    status = folder.stat(name)
    if not stat.S_ISREG(status.st_mode):
        return f"{name} is {files.kind_of(status.st_mode)}"
    if not files.is_mine(status):
        return f"{name} belongs to another user"
    if status.st_nlink > 1:
        return f"{name} has a second name elsewhere (a hard link)"
    header = _header(folder, name)
    if header is None or (not _has_end(folder, name) and liveness.is_relay_alive(header)):
        return ""
    previous = chain.name_before(path, earlier)
    if previous and header.continues != previous:
        return f"{name} does not say that it continues {previous}"
    return _Part(name, status.st_size, status.st_mtime)


def _journal_part(folder: Folder, beside: str) -> _Part | str:
    """Examine the journal ``beside`` a recording, with all its files. Return as ``_trace_part`` does."""
    try:
        inner = Folder(os.path.join(folder.path, beside))
    except OSError as fault:
        return f"the journal beside it cannot be opened ({(fault.strerror or 'unreadable')})"
    if lock.is_held(inner) or lock.is_held_by_relay(inner):
        return ""
    if not files.is_mine(inner.status):
        return "the journal beside it belongs to another user"
    total, changed_s = 0, inner.status.st_mtime
    for name in inner.names():
        if not journal_reader.is_journal_file(name):
            return f"the journal beside it holds {name!a}, which is not ours"
        status = inner.stat(name)
        total, changed_s = total + status.st_size, max(changed_s, status.st_mtime)
    return _Part(beside, total, changed_s)


def _header(folder: Folder, name: str) -> Header | None:
    """Return the header with which a file begins; ``None`` if it is not a trace."""
    try:
        with open(folder.open(name), "rb") as file:
            header = decode(file.readline(_HEADER_BYTES))
    except (OSError, NotARecordError):
        return None
    return header if isinstance(header, Header) else None


def _has_end(folder: Folder, name: str) -> bool:
    """Whether the last record of a file is one that ends it."""
    try:
        with open(folder.open(name), "rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - _TAIL_BYTES, 0))
            return file.read().rstrip(b"\n").rpartition(b"\n")[2].startswith(_LAST_RECORDS)
    except OSError:
        return False


def _delete_recording(old: OldRecording, age_s: float) -> str:
    """Delete the files of a recording, unless it has changed since it was examined.

    Returns:
        Why the recording was not deleted; empty if it was.
    """
    first = old.names[0].removesuffix(".journal")
    try:
        folder = Folder(old.folder)
    except OSError:
        return f"{first}: kept, its folder has changed meanwhile"
    again = _examine_recording(folder, first)
    if isinstance(again, KeptRecording) or again.names != old.names or again.age_s < age_s:
        return f"{first}: kept, it has changed meanwhile"
    # The first file is deleted last: without it, the other files would look like recordings of their own.
    for name in reversed(old.names):
        try:
            if name.endswith(".journal"):
                journal_reader.remove(os.path.join(folder.path, name))
                if folder.has(name):
                    return f"{name}: could not be deleted whole; delete it by hand"
            else:
                folder.unlink(name)
        except OSError as fault:
            reason = (fault.strerror or "could not be deleted").lower()
            return f"{name}: {reason}; the rest of the recording stays"
    return ""


def _recording_line(old: OldRecording, path: str) -> str:
    first, *others = old.names
    first = os.path.relpath(os.path.join(old.folder, first), path)
    more = f" and {count(len(others), 'file')} beside it" if others else ""
    age = f"{old.age_s / 86_400:.0f} days" if old.age_s >= 172_800 else duration(int(old.age_s * 1e9))
    return f"{age:>8}  {size(old.size):>7}  {visible(first)}{more}"


def _confirm_deletion(what: str) -> None:
    """Ask the user whether to delete ``what``.

    Raises:
        UsageError: the answer is not yes, or there is nobody to ask.
    """
    if not sys.stdin.isatty():
        raise UsageError("prune", f"would delete {what}", "add --yes to delete without a question")
    sys.stderr.write(f"mcpproxy: delete {visible(what)}? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("prune", "nothing was deleted", "answer y to delete")
