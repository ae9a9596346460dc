"""A lock on a file of a recording, so that several shippers of one folder do not do the same at a time."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager

if sys.platform == "win32":

    @contextmanager
    def alone(path: str) -> Generator[bool]:
        """Windows has no lock that leaves a file readable: there, one shipper works on a folder at a time."""
        del path
        yield True
else:
    import fcntl

    from mcpproxy.base.files import open_regular

    @contextmanager
    def alone(path: str) -> Generator[bool]:
        """Hold a lock of the file; give false if another process holds it.

        Raises:
            OSError: the file cannot be opened.
        """
        fd = open_regular(path)
        try:
            is_alone = True
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                is_alone = False
            yield is_alone
        finally:
            os.close(fd)
