"""Who owns a journal: a lock that ends with the process that holds it, however that ends."""

import os
import sys
from typing import Final

if sys.platform == "win32":
    import msvcrt

    def _lock(fd: int, is_waiting: bool) -> None:
        # Ten tries, a second apart, is what waiting means there.
        msvcrt.locking(fd, msvcrt.LK_LOCK if is_waiting else msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(fd: int, is_waiting: bool) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | (0 if is_waiting else fcntl.LOCK_NB))


NAME: Final = "lock"


class Lock:
    """Held from ``take`` on; given back by ``release`` or by the end of the process."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @classmethod
    def take(cls, folder: str, *, is_waiting: bool = False) -> "Lock | None":
        """The lock of the journal ``folder``; ``None`` when another process holds it or the folder is gone.

        Raises:
            OSError: the lock file cannot be opened.
        """
        path = os.path.join(folder, NAME)
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:
            return None
        try:
            _lock(fd, is_waiting)
            # The holder before us may have deleted the journal, this file with it.
            if os.path.samestat(os.fstat(fd), os.stat(path)):
                return cls(fd)
        except OSError:
            pass  # held by another, or gone
        os.close(fd)
        return None

    def release(self) -> None:
        os.close(self._fd)
