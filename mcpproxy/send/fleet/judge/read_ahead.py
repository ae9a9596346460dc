"""Opens recordings one after another, and fetches the next ones of a store before their turn.

A distant store answers after tens of milliseconds, and a small recording is read in a few. The bytes that are
fetched ahead are bounded, and nobody looks at them before their turn.
"""

from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from mcpproxy.send.fleet.judge.corpus import Corpus, FleetRecording, StoreCorpus

LARGEST_AHEAD_BYTES: Final = 1 << 20
"""A larger recording is fetched in its turn."""
REQUESTS: Final = 24
"""How many recordings are fetched or waiting at a time."""


def opened_in_turn(
    corpus: Corpus, recordings: Iterable[FleetRecording]
) -> Generator[tuple[FleetRecording, AbstractContextManager[str]]]:
    """Yield each recording, in order, and a context manager that opens it: see ``StoreCorpus.opened``.

    If they are in a store, the small ones among the next ``REQUESTS`` are fetched ahead. Close the generator
    if you do not read it to its end: that cancels pending fetches.
    """
    if not isinstance(corpus, StoreCorpus):
        for recording in recordings:
            yield recording, corpus.opened(recording)
        return
    pool = ThreadPoolExecutor(REQUESTS)
    waiting: deque[tuple[FleetRecording, Future[tuple[bytes, ...]] | None]] = deque()
    try:
        for recording in recordings:
            is_small = recording.size <= LARGEST_AHEAD_BYTES
            ahead = pool.submit(corpus.packed, recording, LARGEST_AHEAD_BYTES) if is_small else None
            waiting.append((recording, ahead))
            if len(waiting) == REQUESTS:
                yield _with_opener(corpus, *waiting.popleft())
        while waiting:
            yield _with_opener(corpus, *waiting.popleft())
    finally:
        pool.shutdown(cancel_futures=True)


def _with_opener(
    corpus: StoreCorpus, recording: FleetRecording, ahead: Future[tuple[bytes, ...]] | None
) -> tuple[FleetRecording, AbstractContextManager[str]]:
    return recording, corpus.opened(recording) if ahead is None else _open_fetched(corpus, recording, ahead)


@contextmanager
def _open_fetched(
    corpus: StoreCorpus, recording: FleetRecording, ahead: Future[tuple[bytes, ...]]
) -> Generator[str]:
    with corpus.opened(recording, ahead.result()) as path:
        yield path
