"""Replace the configuration file of a host, if it has not changed since it was read.

The new content is written to a draft beside the file, and the draft is renamed to the file. So a reader of
the file sees the old or the new content, even if this process is killed.
"""

import hashlib
import os
import shutil
import stat
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final

from mcpproxy.base import files
from mcpproxy.base.system_words import os_reason
from mcpproxy.hosts.errors import HostFileError
from mcpproxy.hosts.server_entries import LARGEST_BYTES, ConfigFile

_LOCK_STALE_S: Final = 10
"""The age in seconds above which the lock of a host counts as left behind."""
_LOCK_WAIT_S: Final = 12
"""The seconds that we wait for a lock. They are more than ``_LOCK_STALE_S``."""
_LOCK_POLL_S: Final = 0.05
"""The seconds between two tries."""


def check_writable(file: ConfigFile) -> None:
    """Check that a file may be replaced.

    Raises:
        HostFileError: the file must not be replaced; the message says why.
    """
    try:
        status = os.stat(file.real_path)
    except OSError as fault:
        reason = os_reason(fault)
        raise HostFileError(file.path, f"cannot be written ({reason})", "nothing was written") from None
    if file.is_outside:
        fact = f"a link that leads out of its folder, to {file.real_path}"
        raise HostFileError(file.path, fact, "name that file with --file if you mean it")
    if not status.st_mode & stat.S_IWUSR or not os.access(file.real_path, os.W_OK):
        raise HostFileError(file.path, "read-only", "nothing was written")
    if status.st_nlink > 1:
        fact = f"{status.st_nlink} names lead to it (hard links), and a new file would part them"
        raise HostFileError(file.path, fact, "nothing was written")


def replace_content(file: ConfigFile, content: bytes, lock: str = "") -> None:
    """Replace the content of ``file``. Its mode, owner and attributes stay, and so does a link to it.

    ``lock`` is the protocol by which the host locks the file, as in ``hosts.toml``; empty if there is none.

    Raises:
        HostFileError: the file has changed since it was read, its host has locked it, or it cannot be
            written. It is not modified.
    """
    draft = draft_of(file.real_path)
    try:
        _write_draft(draft, content, file.real_path)
        # The lock is held only for the last step, so that a kill seldom leaves it behind.
        with _locked(file, lock):
            if files.read(file.real_path, LARGEST_BYTES) != file.data:
                raise HostFileError(file.path, "changed since it was read", "nothing was written; try again")
            os.replace(draft, file.real_path)
    except BaseException as fault:
        _unlink(draft)
        if not isinstance(fault, OSError):
            raise
        reason = os_reason(fault)
        raise HostFileError(file.path, f"cannot be written ({reason})", "nothing was written") from None


def _write_draft(draft: str, content: bytes, like: str) -> None:
    """Write a new file with the owner, mode and attributes of the file ``like``."""
    status = os.stat(like)
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    with open(fd, "wb") as out:
        _keep_owner(fd, status)
        out.write(content)
        out.flush()
        os.fsync(fd)
    shutil.copymode(like, draft)
    _keep_attributes(like, draft)


def draft_of(path: str) -> str:
    """Return the path of the draft of a file.

    A file never has two drafts at a time, because only the process that has locked the ledger (``ledger.py``)
    writes drafts.
    """
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.mcpproxy")


def remove_draft(path: str) -> None:
    """Remove the draft that a killed process has left beside the file ``path``."""
    _unlink(draft_of(path))


def sha256(data: bytes) -> str:
    """Return the hash of a file's content, as the ledger stores it."""
    return hashlib.sha256(data).hexdigest()


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass  # there is none, or it is not ours to remove


def _keep_owner(fd: int, status: os.stat_result) -> None:
    if hasattr(os, "fchown"):
        draft_status = os.fstat(fd)
        if (draft_status.st_uid, draft_status.st_gid) != (status.st_uid, status.st_gid):
            os.fchown(fd, status.st_uid, status.st_gid)


def _keep_attributes(path: str, draft: str) -> None:
    """Copy the extended attributes, which also contain access lists and security labels. Linux only."""
    if not hasattr(os, "listxattr"):
        return
    try:
        names = os.listxattr(path)
    except OSError:
        return  # a file system without them
    for name in names:
        os.setxattr(draft, name, os.getxattr(path, name))


@contextmanager
def _locked(file: ConfigFile, lock: str) -> Generator[None]:
    """Lock the file as its host does.

    With the protocol ``folder``, the lock is a folder ``<file>.lock``, which is stale after ten seconds.
    With any other protocol, nothing is locked.

    Raises:
        HostFileError: the host keeps its lock for longer than ``_LOCK_WAIT_S``.
        OSError: the lock cannot be made.
    """
    if lock != "folder":
        yield
        return
    path = file.real_path + ".lock"
    deadline = time.monotonic() + _LOCK_WAIT_S
    while not _make_lock(path):
        if time.monotonic() > deadline:
            fact = f"locked by its host ({path})"
            raise HostFileError(file.path, fact, "nothing was written; try again")
        time.sleep(_LOCK_POLL_S)
    try:
        yield
    finally:
        with suppress(OSError):  # another process has removed it as stale
            os.rmdir(path)


def _make_lock(lock: str) -> bool:
    """Make the folder ``lock``, and return whether that succeeded. Remove a stale lock for the next try."""
    try:
        os.mkdir(lock)
    except FileExistsError:
        try:
            if time.time() - os.stat(lock).st_mtime > _LOCK_STALE_S:
                os.rmdir(lock)
        except OSError:
            pass  # it has just been released, or is a file: then it stays
        return False
    return True
