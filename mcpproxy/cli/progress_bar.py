"""Show the progress of reading files as a bar on a terminal, if it takes longer than a second.

tqdm draws it. If stderr is not a terminal, nothing is drawn and tqdm is not imported.
"""

import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final

_DELAY_S: Final = 1.0


class ReadProgress:
    """Counts the bytes read of several files; ``bar`` shows them, if there is one."""

    def __init__(self, bar: Any = None) -> None:
        self._bar = bar
        self._pid: Final = os.getpid()
        self._done = 0

    def within(self, count: int) -> None:
        """Set how many bytes of the current file are read. Only the process that draws calls it."""
        if self._bar is not None and os.getpid() == self._pid:
            self._bar.update(self._done + count - self._bar.n)

    def done(self, path: str) -> None:
        """Count the file as read."""
        self._done += _size(path)
        self.within(0)

    def clear(self) -> None:
        """Clear the bar for a line of output; the next count draws it again."""
        if self._bar is not None:
            self._bar.clear()


@contextmanager
def reading(paths: Sequence[str]) -> Generator[ReadProgress]:
    """Return the progress of reading ``paths``."""
    bar = _bar(sum(map(_size, paths))) if sys.stderr.isatty() else None
    try:
        yield ReadProgress(bar)
    finally:
        if bar is not None:
            bar.close()


def _bar(total: int) -> Any:
    from tqdm import tqdm

    # ``leave`` would keep the bar among the results; the delay avoids flicker in short readings.
    return tqdm(total=total, unit="B", unit_scale=True, delay=_DELAY_S, leave=False, file=sys.stderr)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
