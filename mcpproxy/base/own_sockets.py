"""Unix domain sockets in a folder that another user may have made.

The name of a socket can be a symbolic link, somebody else's socket, or any other file. So this module
connects only to sockets of this user, and removes only sockets of this user that have no listener.
"""

import errno
import os
import socket
import stat
import struct
import sys
from contextlib import suppress
from typing import Final

from mcpproxy.base import files

_LONGEST_NAME: Final = 100
"""Every system allows names that are shorter than this number of bytes."""
_CREDENTIALS: Final = struct.Struct("3i")
"""``struct ucred`` of Linux: the ids of the listener's process, user and group."""


def is_own(path: str) -> bool:
    """Whether ``path`` is a socket of this user, and no symbolic link."""
    try:
        _refuse_unless_own(path)
    except OSError:
        return False
    return True


def connect(path: str, timeout_s: float) -> socket.socket:
    """Return a connection to the socket ``path`` of this user.

    Raises:
        FileNotFoundError: ``path`` does not exist.
        ConnectionRefusedError: no process listens at the socket any more.
        PermissionError: ``path`` is not a socket, it is a link, or it belongs to another user. On Linux also:
            another user listens at it.
        OSError: the connection fails, or is not made within ``timeout_s``.
    """
    _refuse_unless_own(path)
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.settimeout(timeout_s)
        with ShortName(path) as name:
            sock.connect(name)
        if sys.platform == "linux":  # the name may have got another socket since
            data = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            if _CREDENTIALS.unpack(data)[1] != os.geteuid():
                raise PermissionError(errno.EACCES, "is of another user", path)
    except BaseException:
        sock.close()
        raise
    return sock


class OwnListener:
    """A new socket that listens at ``path``, to which only this user can connect.

    A socket that a killed process of this user has left there is replaced.

    Raises:
        FileExistsError: ``path`` is anything else, or another process listens at it.
        OSError: the socket cannot be made.
    """

    def __init__(self, path: str) -> None:
        remove_left(path)
        self._path: Final = path
        self.socket: Final = socket.socket(socket.AF_UNIX)
        mask = os.umask(0o177)
        try:
            with ShortName(path) as name:
                self.socket.bind(name)
            self.socket.listen()
            self._identity: Final = _identity(path)
        except OSError as error:
            self.socket.close()
            if error.errno == errno.EADDRINUSE:
                raise FileExistsError(errno.EEXIST, f"{os.path.basename(path)} is there already") from None
            raise
        finally:
            os.umask(mask)

    def close(self) -> None:
        """Close the socket and remove it from its folder, unless another file has got its name."""
        self.socket.close()
        with suppress(OSError):  # it was removed already
            if _identity(self._path) == self._identity:
                os.unlink(self._path)


def remove_left(path: str) -> None:
    """Remove ``path`` if it is a socket that a killed process of this user has left; keep anything else."""
    try:
        connect(path, 1.0).close()
    except ConnectionRefusedError:
        with suppress(OSError):
            os.unlink(path)
    except OSError:
        pass


class ShortName:
    """A context manager that gives a socket's path, or a shorter name if that may be too long.

    The shorter name leads through the open folder in ``/proc``. On systems without ``/proc`` the path stays.
    """

    def __init__(self, path: str) -> None:
        self._folder, self._name = os.path.split(path)
        self._fd = -1

    def __enter__(self) -> str:
        path = os.path.join(self._folder, self._name)
        if len(os.fsencode(path)) < _LONGEST_NAME or not os.path.isdir("/proc/self/fd"):
            return path
        self._fd = os.open(self._folder, os.O_RDONLY)
        return f"/proc/self/fd/{self._fd}/{self._name}"

    def __exit__(self, *raised: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)


def _identity(path: str) -> tuple[int, int]:
    status = os.lstat(path)
    return status.st_dev, status.st_ino


def _refuse_unless_own(path: str) -> None:
    """Raise ``OSError`` unless ``path`` is a socket of this user."""
    status = os.lstat(path)
    if not stat.S_ISSOCK(status.st_mode):
        is_regular = stat.S_ISREG(status.st_mode)
        what = "a file, not a socket" if is_regular else files.kind_of(status.st_mode)
        raise PermissionError(errno.EACCES, f"is {what}", path)
    if not files.is_mine(status):
        raise PermissionError(errno.EACCES, "is of another user", path)
