"""A progress bar for reading files, shown on a terminal if reading takes longer than a second.

The package tqdm draws the bar. It is imported only if stderr is a terminal.
"""

import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final

_DELAY_S: Final = 1.0
"""How long reading must take before the bar appears."""


class ReadProgress:
    """Counts the bytes that were read from several files, and shows the count in ``bar`` if there is one."""

    def __init__(self, bar: Any = None) -> None:
        self._bar = bar
        self._pid: Final = os.getpid()
        self._finished_bytes = 0

    def set_bytes_read(self, count: int) -> None:
        """Set how many bytes of the current file were read. In a forked process this does nothing."""
        if self._bar is not None and os.getpid() == self._pid:
            self._bar.update(self._finished_bytes + count - self._bar.n)

    def finish_file(self, path: str) -> None:
        """Count the file as read."""
        self._finished_bytes += _file_size(path)
        self.set_bytes_read(0)

    def clear(self) -> None:
        """Remove the bar before a line of output is printed; the next count draws it again."""
        if self._bar is not None:
            self._bar.clear()


@contextmanager
def reading(paths: Sequence[str]) -> Generator[ReadProgress]:
    """Yield the progress of reading ``paths``; the bar is removed at the end."""
    bar = _new_bar(sum(map(_file_size, paths))) if sys.stderr.isatty() else None
    try:
        yield ReadProgress(bar)
    finally:
        if bar is not None:
            bar.close()


def _new_bar(total: int) -> Any:
    from tqdm import tqdm

    # ``leave=False`` removes the bar, so that it is not left among the results.
    return tqdm(total=total, unit="B", unit_scale=True, delay=_DELAY_S, leave=False, file=sys.stderr)


def _file_size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
