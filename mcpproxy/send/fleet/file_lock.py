"""A lock on a file of a recording, so that several shippers of one folder do not ship it at the same time."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager

if sys.platform == "win32":

    @contextmanager
    def lock_file(path: str) -> Generator[bool]:
        """Yield true. Windows has no lock that leaves a file readable: only one shipper may use a folder."""
        del path
        yield True
else:
    import fcntl

    from mcpproxy.base.files import open_regular

    @contextmanager
    def lock_file(path: str) -> Generator[bool]:
        """Lock the file; yield false if another process has locked it.

        Raises:
            OSError: the file cannot be opened.
        """
        fd = open_regular(path)
        try:
            is_locked = True
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                is_locked = False
            yield is_locked
        finally:
            os.close(fd)
