"""Several traces at once, on all the processors there are: judging is arithmetic, and one process has one.

Where processes cannot be forked, one after another does it too.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar, cast

R = TypeVar("R")

WORTH_BYTES: Final = 4 << 20
"""Less than this in all is read sooner than processes are started."""

_work: Callable[[str], object] | None = None


def each(work: Callable[[str], R], paths: Sequence[str]) -> Iterator[R]:
    """What ``work`` makes of each path, in their order, as soon as that allows.

    ``work`` does not raise for what is wrong with a path; its result can be pickled.
    """
    workers = min(len(paths), _processors())
    if workers < 2 or not hasattr(os, "fork") or not _is_worth_it(paths):
        yield from map(work, paths)
        return
    # Not at the top: these cost every short reading a fifth of its time.
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    global _work  # what a fork inherits needs no pickling
    _work = work
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(workers, context, initializer=_ignore_interrupts) as pool:
        try:
            yield from cast("Iterator[R]", pool.map(_run, paths))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _run(path: str) -> object:
    assert _work is not None
    return _work(path)


def _ignore_interrupts() -> None:
    """The terminal sends an interrupt to all; one of us is to speak of it."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _is_worth_it(paths: Sequence[str]) -> bool:
    total = 0
    for path in paths:
        try:
            total += os.stat(path).st_size
        except OSError:
            continue
        if total >= WORTH_BYTES:
            return True
    return False
