"""The descriptors that this process inherited from the host."""

from __future__ import annotations

import os
import sys


def release(fd: int) -> None:
    """Point descriptor 0, 1 or 2 to /dev/null: if it were closed, the next file we open would get its
    number."""
    try:
        null = os.open(os.devnull, os.O_RDWR)
    except OSError:  # no free descriptor; then it is closed without a replacement
        os.close(fd)
        return
    os.dup2(null, fd)
    os.close(null)


def occupy_standard() -> None:
    """Open each of 0, 1 and 2 that the host left closed, so that no other file gets its number."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            # ``open`` returns the lowest free descriptor. That is ``fd`` itself, so ``dup2`` changes nothing,
            # and there is no other descriptor to close.
            os.dup2(os.open(os.devnull, os.O_RDWR), fd)


def open_descriptors() -> list[int]:
    """Return the open descriptors of this process from 3 on; if they cannot be listed, all from 3 to 255."""
    where = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
    try:
        return [int(name) for name in os.listdir(where) if int(name) > 2]
    except OSError:
        return list(range(3, 256))
