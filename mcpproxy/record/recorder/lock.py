"""The locks of a journal (the relay's copy of the traffic): the recorder, which makes the trace from it,
holds one, the relay another.

The system releases a lock when the process that holds it ends, even after a kill, and shows it in every
container of the machine. Over NFS the server keeps both locks, unless the file system is mounted with
``nolock`` or ``local_lock``: then other machines do not see them."""

import errno
import os
import sys
from typing import Final

from mcpproxy.base.files import Folder
from mcpproxy.record.relay.journal import RELAY_LOCK

if sys.platform == "win32":
    import msvcrt

    def _lock(fd: int, is_waiting: bool, is_shared: bool = False) -> None:
        del is_shared  # Windows has no shared lock
        # LK_LOCK tries ten times, a second apart.
        msvcrt.locking(fd, msvcrt.LK_LOCK if is_waiting else msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(fd: int, is_waiting: bool, is_shared: bool = False) -> None:
        kind = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX
        fcntl.flock(fd, kind | (0 if is_waiting else fcntl.LOCK_NB))


NAME: Final = "lock"
"""The name of the file that the recorder locks, in the folder of the journal."""


class Lock:
    """A lock that is held from ``take`` until ``release`` or the end of the process."""

    def __init__(self, fd: int, folder: str) -> None:
        self._fd = fd
        self._folder = folder

    @classmethod
    def take(cls, folder: str, *, is_waiting: bool = False) -> "Lock | None":
        """Lock the journal ``folder``; ``None`` if another process holds the lock, the folder or the lock
        file is gone, or the file system has no locks.

        With ``is_waiting``, wait until the other process releases it, on Windows for at most ten seconds.

        Raises:
            OSError: the lock file cannot be opened, or is not a regular file.
        """
        try:
            journal_folder = Folder(folder)
            fd = _open_lock_file(journal_folder)
        except FileNotFoundError:
            return None
        try:
            _lock(fd, is_waiting)
            # The previous holder may have deleted the journal and this file.
            if os.path.samestat(os.fstat(fd), journal_folder.stat(NAME)):
                return cls(fd, folder)
        except OSError:
            pass  # another process holds the lock, or the file is deleted
        os.close(fd)
        return None

    def release(self) -> None:
        os.close(self._fd)
        if sys.platform == "win32":
            # The process that deleted the journal could not delete this file, which was open.
            _remove_last(self._folder)


def is_held(folder: Folder) -> bool:
    """Whether a process holds the lock of a journal, or its file system has no locks.

    It is false if the lock file cannot be opened. The test creates and changes no file.
    """
    try:
        fd = folder.open(NAME)
    except OSError:
        return False
    try:
        _lock(fd, is_waiting=False, is_shared=True)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def is_held_by_relay(folder: Folder) -> bool:
    """Whether a running relay, in any container of the machine, holds its lock of a journal.

    False does not prove that there is none: some file systems, and Windows, have no such locks.
    """
    if sys.platform == "win32":
        return False
    try:
        fd = folder.open(RELAY_LOCK)
    except OSError:
        return False
    try:
        os.lockf(fd, os.F_TEST, 0)
    except OSError as fault:
        return fault.errno in (errno.EACCES, errno.EAGAIN)
    finally:
        os.close(fd)
    return False


def _remove_last(folder: str) -> None:
    """Delete the lock file and its folder, if the lock file is all that is left of the journal."""
    try:
        if os.listdir(folder) == [NAME]:
            os.unlink(os.path.join(folder, NAME))
            os.rmdir(folder)
    except OSError:  # another process has taken the lock, and will delete the folder
        pass


def _open_lock_file(folder: Folder) -> int:
    while True:
        try:
            return folder.open(NAME, os.O_RDWR)
        except FileNotFoundError:
            try:
                return folder.create(NAME)
            except FileExistsError:
                pass  # another process has just made it
