"""How far a long reading has come: a bar on a terminal, for what takes longer than a second.

tqdm draws it. Nothing is drawn, and tqdm is not imported, where stderr is not a terminal.
"""

import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final

_DELAY_S: Final = 1.0


class ReadProgress:
    """Counts the bytes of several files; ``bar`` is what shows them, if anything does."""

    def __init__(self, bar: Any = None) -> None:
        self._bar = bar
        self._pid: Final = os.getpid()
        self._done = 0

    def within(self, count: int) -> None:
        """So many bytes of the file at hand are read. Only the process that draws says so."""
        if self._bar is not None and os.getpid() == self._pid:
            self._bar.update(self._done + count - self._bar.n)

    def done(self, path: str) -> None:
        """The file is read."""
        self._done += _size(path)
        self.within(0)

    def clear(self) -> None:
        """Make room for a line of output; the bar comes back with the next count."""
        if self._bar is not None:
            self._bar.clear()


@contextmanager
def reading(paths: Sequence[str]) -> Generator[ReadProgress]:
    """A bar for the reading of ``paths``."""
    bar = _bar(sum(map(_size, paths))) if sys.stderr.isatty() else None
    try:
        yield ReadProgress(bar)
    finally:
        if bar is not None:
            bar.close()


def _bar(total: int) -> Any:
    from tqdm import tqdm

    # ``leave`` would keep the bar among the results; the delay spares short readings the flicker.
    return tqdm(total=total, unit="B", unit_scale=True, delay=_DELAY_S, leave=False, file=sys.stderr)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
