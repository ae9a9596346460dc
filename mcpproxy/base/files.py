"""Open and write files and folders that another user may have made.

A folder of recordings may come from a stranger. A name in it can be a symbolic link to any file of the user,
a pipe that nobody writes to, or a device with endless content. So this module reads only regular files of a
bounded size, creates only names that did not exist, replaces files by a rename, and keeps a folder open by a
descriptor while it is used, so that nobody can replace the folder meanwhile.
"""

import errno
import os
import stat
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

_HAS_DIR_FD: Final = {os.open, os.stat, os.unlink, os.rename} <= os.supports_dir_fd
"""Whether a name can be opened, looked up, removed and renamed relative to an open folder. False on Windows,
where paths are joined."""
# Each of these flags is 0 on a system that does not have it.
_BINARY: Final[int] = getattr(os, "O_BINARY", 0)
_NOFOLLOW: Final[int] = getattr(os, "O_NOFOLLOW", 0)
_NONBLOCK: Final[int] = getattr(os, "O_NONBLOCK", 0)
_DIRECTORY: Final[int] = getattr(os, "O_DIRECTORY", 0)
_NEW: Final = os.O_CREAT | os.O_EXCL | _BINARY | _NOFOLLOW
_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
RULES_BYTES: Final = 16 << 20
"""The size limit, in bytes, of files of rules, and of files of pinned tool definitions."""
_IN_USE: Final = "In use by another program, or permission denied"


def open_binary(name: str, flags: int, mode: int = 0o600, *, dir_fd: int | None = None) -> int:
    """Like ``os.open``, without the translation of line ends on Windows.

    ``dir_fd`` is an open folder that contains ``name``, if given. Windows can refuse to open a file that
    another program has open, but its C library then reports only that permission is denied. So on Windows the
    error names both reasons.

    Raises:
        OSError: as ``os.open``.
    """
    try:
        return os.open(name, flags | _BINARY, mode, dir_fd=dir_fd)
    except PermissionError:
        if sys.platform == "win32":
            raise PermissionError(errno.EACCES, _IN_USE, name) from None
        raise


def open_regular(
    name: str, flags: int = os.O_RDONLY, *, dir_fd: int | None = None, follows: bool = False
) -> int:
    """Open the regular file ``name`` without ever blocking, and return the descriptor.

    With ``follows``, ``name`` may be a symbolic link. Use ``follows`` only to read a file that the user
    named. ``dir_fd`` is an open folder that contains ``name``, if given.

    Raises:
        OSError: ``name`` cannot be opened, or is not a regular file.
    """
    # Test the type before opening: merely opening some devices has an effect on them.
    _refuse_unless_regular(name, os.stat(name, dir_fd=dir_fd, follow_symlinks=follows))
    fd = open_binary(name, flags | _NONBLOCK | (0 if follows else _NOFOLLOW), dir_fd=dir_fd)
    try:
        _refuse_unless_regular(name, os.fstat(fd))
    except OSError:
        os.close(fd)
        raise
    return fd


def read(name: str, limit: int, *, follows: bool = False) -> bytes:
    """Return the content of the regular file ``name``. With ``follows``, ``name`` may be a link to the file.

    Raises:
        OSError: the file cannot be read, is not regular, or has more than ``limit`` bytes.
    """
    return _read(name, open_regular(name, follows=follows), limit)


def _read(name: str, fd: int, limit: int) -> bytes:
    with open(fd, "rb") as file:
        data = file.read(min(os.fstat(file.fileno()).st_size, limit) + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"is larger than {limit >> 20} MiB", name)
    return data


def create(path: str, mode: int = 0o600) -> int:
    """Create the new file ``path``, which by default only its owner may read, and return the descriptor.

    Raises:
        OSError: it cannot be created, or ``path`` exists already, also as a symbolic link.
    """
    return os.open(path, os.O_RDWR | _NEW, mode)


def replace(path: str, parts: Iterable[bytes], mode: int = 0o666) -> None:
    """Replace the file ``path`` atomically by a new file with the content ``parts``.

    ``mode`` is that of the new file, before the umask. If ``path`` is a symbolic link, that is replaced.

    Raises:
        OSError: the new file cannot be written. The old file is unchanged.
    """
    draft = f"{path}.{os.getpid()}.partial"
    fd = create(draft, mode)
    try:
        with open(fd, "wb") as file:
            file.writelines(parts)
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise


class Folder:
    """A folder that a descriptor keeps open, so that its entries are found even after the folder is moved.

    On Windows, where no descriptor can do this, the path is used instead. If ``within`` is given, ``path``
    is an entry of that open folder. A symbolic link is not followed if it is the folder itself or an entry of
    it; without ``within``, the folders above may be links.

    Raises:
        OSError: ``path`` cannot be opened, or is not a folder.
    """

    def __init__(self, path: str, *, within: "Folder | None" = None) -> None:
        self.path: Final = path
        self._fd: int | None = None
        above = within._fd if within else None
        name = os.path.basename(path) if above is not None else path
        status = os.stat(name, dir_fd=above, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            raise OSError(errno.ELOOP, "is a symbolic link, which is not followed", path)
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, "is not a folder", path)
        if _HAS_DIR_FD:
            self._fd = os.open(name, os.O_RDONLY | _DIRECTORY | _NOFOLLOW, dir_fd=above)
            status = os.fstat(self._fd)
        self.status: Final = status

    def close(self) -> None:
        """Close the descriptor; every later use of the folder raises ``OSError``, except on Windows.

        Without this call, the descriptor is closed when the last reference to the folder goes.
        """
        if self._fd is not None and self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        if hasattr(self, "_fd"):
            self.close()

    def names(self) -> list[str]:
        """Return the names in the folder, sorted.

        Raises:
            OSError: the folder cannot be read.
        """
        return sorted(os.listdir(self.path if self._fd is None else self._fd))

    def stat(self, name: str) -> os.stat_result:
        """Return the status of an entry of the folder; for a symbolic link, the status of the link itself.

        Raises:
            OSError: the folder has no entry of that name, or the entry cannot be looked up.
        """
        return os.stat(self._path_of(name), dir_fd=self._fd, follow_symlinks=False)

    def has(self, name: str) -> bool:
        """Whether the folder has an entry of that name. False, too, if the entry cannot be looked up."""
        try:
            self.stat(name)
        except OSError:
            return False
        return True

    def open(self, name: str, flags: int = os.O_RDONLY) -> int:
        """Open a regular file of the folder and return the descriptor.

        Raises:
            OSError: the entry cannot be opened, or is not a regular file.
        """
        return open_regular(self._path_of(name), flags, dir_fd=self._fd)

    def read(self, name: str, limit: int) -> bytes:
        """Return the content of a regular file of the folder.

        Raises:
            OSError: the file cannot be read, is not regular, or has more than ``limit`` bytes.
        """
        return _read(name, self.open(name), limit)

    def inner(self, name: str, *, creates: bool = False) -> "Folder":
        """Open the subfolder ``name``; with ``creates``, make it first if it does not exist.

        Raises:
            OSError: there is no folder of that name, it is a link, or it cannot be made.
        """
        if creates:
            with suppress(FileExistsError):
                os.mkdir(self._path_of(name), dir_fd=self._fd)
        return Folder(os.path.join(self.path, name), within=self)

    def create(self, name: str, mode: int = 0o600) -> int:
        """Create a file that by default only its owner may read, and return the descriptor.

        Raises:
            OSError: the file cannot be created, or the name exists already.
        """
        return os.open(self._path_of(name), os.O_RDWR | _NEW, mode, dir_fd=self._fd)

    def put_new(self, name: str, content: bytes, mode: int = 0o600) -> None:
        """Write a file that by default only its owner may read. It gets its name when it is complete.

        Raises:
            FileExistsError: the name exists already. That entry is unchanged.
            OSError: the file cannot be written.
        """
        draft = f"{name}.{os.getpid()}.{threading.get_ident()}.partial"
        fd = self.create(draft, mode)  # outside of ``try``: one that exists is somebody else's
        try:
            with open(fd, "wb") as file:
                file.write(content)
            os.link(self._path_of(draft), self._path_of(name), src_dir_fd=self._fd, dst_dir_fd=self._fd)
        finally:
            with suppress(OSError):
                self.unlink(draft)

    def put(self, name: str, content: bytes, mode: int = 0o600) -> None:
        """Replace the file ``name`` atomically by a new one, which by default only its owner may read.

        Raises:
            OSError: the new file cannot be written. The old file is unchanged.
        """
        draft = f"{name}.{os.getpid()}.partial"
        try:
            with open(self.create(draft, mode), "wb") as file:
                file.write(content)
            self.replace(draft, name)
        except FileExistsError:  # somebody else's draft
            raise
        except BaseException:
            with suppress(OSError):
                self.unlink(draft)
            raise

    def replace(self, draft: str, name: str) -> None:
        """Rename the file ``draft`` to ``name``, replacing any file of that name.

        Raises:
            OSError: the file cannot be renamed.
        """
        os.replace(self._path_of(draft), self._path_of(name), src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def unlink(self, name: str) -> None:
        """Remove an entry of the folder.

        Raises:
            OSError: the entry cannot be removed.
        """
        os.unlink(self._path_of(name), dir_fd=self._fd)

    def _path_of(self, name: str) -> str:
        return name if self._fd is not None else os.path.join(self.path, name)


def walk(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the path and the status of each regular file below ``folder``.

    The paths are relative to ``folder``, with ``/`` between their parts. Symbolic links are not followed, and
    files and folders that vanish meanwhile are left out.

    Raises:
        OSError: ``folder`` or a folder in it cannot be read.
    """
    waiting = [""]
    while waiting:
        below = waiting.pop()
        try:
            # With a slash at its end, the path of a symbolic link would be followed.
            opened = Folder(os.path.join(folder, below.rstrip("/")) if below else folder)
        except FileNotFoundError:
            if not below:
                raise
            continue
        for name in opened.names():
            try:
                status = opened.stat(name)
            except FileNotFoundError:
                continue
            if stat.S_ISDIR(status.st_mode):
                waiting.append(f"{below}{name}/")
            elif stat.S_ISREG(status.st_mode):
                yield f"{below}{name}", status


def is_mine(status: os.stat_result) -> bool:
    """Whether the file belongs to the user of this process. Always true on Windows."""
    return not hasattr(os, "geteuid") or status.st_uid == os.geteuid()


def is_writable_by_others(status: os.stat_result) -> bool:
    """Whether the file's group or every user may write the file. Always false on Windows."""
    return hasattr(os, "geteuid") and bool(status.st_mode & _WRITABLE_BY_OTHERS)


def is_own_below(path: str, folder: str) -> bool:
    """Whether ``path`` is a regular file below ``folder`` that only this user can have written.

    That is, no part of the path below ``folder`` is a symbolic link, and neither such a part nor ``folder``
    itself belongs to another user or can be written by others.
    """
    absolute, folder = os.path.abspath(path), os.path.abspath(folder)
    if not absolute.startswith(os.path.join(folder, "")):
        return False
    try:
        states = [os.lstat(absolute)]
        while (absolute := os.path.dirname(absolute)) != folder:
            states.append(os.lstat(absolute))
        states.append(os.stat(folder))  # follows links: the user may have moved the folder and left a link
    except OSError:
        return False
    is_way = stat.S_ISREG(states[0].st_mode) and all(stat.S_ISDIR(state.st_mode) for state in states[1:])
    return is_way and all(is_mine(state) and not is_writable_by_others(state) for state in states)


def kind_of(mode: int) -> str:
    """Describe the type of a file that is not regular; ``mode`` is its ``st_mode``."""
    for has_type, words in (
        (stat.S_ISLNK, "a symbolic link, which is not followed"),
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISFIFO, "a pipe, not a regular file"),
        (stat.S_ISSOCK, "a socket, not a regular file"),
    ):
        if has_type(mode):
            return words
    return "a device, not a regular file"


def _refuse_unless_regular(name: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, f"is {kind_of(status.st_mode)}", name)
