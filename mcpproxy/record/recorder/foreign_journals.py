"""Find the recordings that must not be completed in place, and copy them.

After a recorder was killed, the next command completes its recording: it writes the rest of the trace and
deletes the journal (the relay's copy of the traffic). That is done in place only if the journal is a folder
of this user into which nobody else may write and which contains only files of a journal, and the trace is a
file of this user, without a second name. Any other recording is copied to a temporary folder and completed
there."""

import errno
import os
import shutil
import stat
import sys
from collections.abc import Sequence
from typing import Final

from mcpproxy.base import files
from mcpproxy.base.files import Folder
from mcpproxy.errors import TraceError
from mcpproxy.record.recorder import journal_reader, lock
from mcpproxy.record.relay import journal
from mcpproxy.record.trace.shipped_files import note_path

COPIED_BYTES: Final = 2 << 30
"""The largest recording, including its journal, that is copied."""

_READ_ONLY: Final = (errno.EACCES, errno.EPERM, errno.EROFS)
"""The errors that mean that this user may not write."""


class ForeignJournalError(TraceError):
    """A journal or a trace that must not be changed; ``fact`` says why."""


def refuse_foreign(folder: Folder, traces: Sequence[str]) -> None:
    """Check that ``traces``, the files of one recording, may be completed from the journal in ``folder``.

    Raises:
        ForeignJournalError: a file is not a regular file of this user, a trace may not be written or has a
            second name (a hard link), or may not be made in its folder; or the journal's folder is another
            user's, has other files or is writable by others.
        OSError: a file cannot be examined.
    """
    if why := _why_foreign_journal(folder):
        raise _foreign_error(folder.path, why)
    for trace in traces:
        if why := _why_foreign_trace(trace):
            raise _foreign_error(trace, why)


def read_only_error(fault: OSError, path: str) -> TraceError | None:
    """Return the error to raise if ``fault`` means that this user may not write ``path``, else ``None``."""
    if fault.errno not in _READ_ONLY:
        return None
    why = (fault.strerror or "").lower() if sys.platform == "win32" else ""
    return _foreign_error(path, why or "may not be written")


def is_recording(trace: str) -> bool:
    """Whether a process is recording into ``trace``. The test changes nothing on disk."""
    try:
        return lock.is_held(Folder(journal.folder(trace)))
    except OSError:
        return False


def copy_recording(traces: Sequence[str], into: str) -> str:
    """Copy a recording, its journal and the note of its shipped files into the folder ``into``.

    Return the path of the first file there. Only regular files are copied, and from the journal's folder only
    the files of a journal, without its locks.

    Raises:
        OSError: the recording cannot be read, is too large, or there is no room for it.
    """
    left_bytes = COPIED_BYTES
    for trace in (*traces, note_path(traces[0])):
        if os.path.exists(trace):
            fd = files.open_regular(trace, follows=True)
            left_bytes -= _copy_file(fd, os.path.join(into, os.path.basename(trace)), left_bytes)
    copied = os.path.join(into, os.path.basename(traces[0]))
    folder = Folder(journal.folder(traces[0]))
    os.mkdir(journal.folder(copied), 0o700)
    for name in filter(journal_reader.is_journal_file, folder.names()):
        if name not in (lock.NAME, journal.RELAY_LOCK) and stat.S_ISREG(folder.stat(name).st_mode):
            left_bytes -= _copy_file(
                folder.open(name), os.path.join(journal.folder(copied), name), left_bytes
            )
    return copied


def _why_foreign_journal(folder: Folder) -> str:
    if not files.is_mine(folder.status):
        return "it belongs to another user"
    if files.is_writable_by_others(folder.status):
        return "others may write into it"
    for name in folder.names():
        if not journal_reader.is_journal_file(name):
            return f"it holds {name!a}, which is no part of a journal"
        if why := _why_foreign_file(f"{name} in it", folder.stat(name)):
            return why
    return ""


def _why_foreign_trace(trace: str) -> str:
    try:
        status = os.lstat(trace)
    except FileNotFoundError:
        where = os.path.dirname(trace) or "."
        return "" if os.access(where, os.W_OK | os.X_OK) else "its folder may not be written to"
    if why := _why_foreign_file("it", status):
        return why
    if status.st_nlink > 1:
        return "it has a second name elsewhere (a hard link)"
    return "" if os.access(trace, os.W_OK) else "it may not be written"


def _why_foreign_file(name: str, status: os.stat_result) -> str:
    if not stat.S_ISREG(status.st_mode):
        return f"{name} is {files.kind_of(status.st_mode)}"
    return "" if files.is_mine(status) else f"{name} belongs to another user"


def _foreign_error(path: str, why: str) -> ForeignJournalError:
    return ForeignJournalError(
        path, None, why, "copy the recording and its journal into a folder of your own"
    )


def _copy_file(fd: int, target: str, limit: int) -> int:
    """Copy the content of ``fd`` into the new file ``target``, and return its size.

    Raises:
        OSError: the content has more than ``limit`` bytes, or cannot be copied.
    """
    with open(fd, "rb") as source:
        size = os.fstat(source.fileno()).st_size
        if size > limit:
            raise OSError(errno.EFBIG, "is too large to be completed in a temporary folder")
        with open(files.create(target), "wb") as copied_file:
            shutil.copyfileobj(source, copied_file)
            return copied_file.tell()
