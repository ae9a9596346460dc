"""Recordings opened one after another; the next ones of a store are fetched before their turn.

A store far away answers after tens of milliseconds, and a small recording is read in a few. What is fetched
ahead is bytes of a bounded size, which nobody looks at before its turn.
"""

from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from mcpproxy.fleet.judge.shard_corpus import Corpus, FleetRecording, StoreCorpus

LARGEST_AHEAD_BYTES: Final = 1 << 20
"""A larger recording is fetched in its turn."""
REQUESTS: Final = 24
"""How many recordings are fetched at a time."""


def opened_in_turn(
    corpus: Corpus, recordings: Iterable[FleetRecording]
) -> Generator[tuple[FleetRecording, AbstractContextManager[str]]]:
    """Yield each recording, in order, and what opens it: see ``StoreCorpus.opened``.

    It takes ``REQUESTS`` of ``recordings`` ahead, if they are in a store. Close it if it is not read to its
    end: what was not fetched yet is not fetched then.
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
                yield _turn(corpus, *waiting.popleft())
        while waiting:
            yield _turn(corpus, *waiting.popleft())
    finally:
        pool.shutdown(cancel_futures=True)


def _turn(
    corpus: StoreCorpus, recording: FleetRecording, ahead: Future[tuple[bytes, ...]] | None
) -> tuple[FleetRecording, AbstractContextManager[str]]:
    return recording, corpus.opened(recording) if ahead is None else _opened(corpus, recording, ahead)


@contextmanager
def _opened(
    corpus: StoreCorpus, recording: FleetRecording, ahead: Future[tuple[bytes, ...]]
) -> Generator[str]:
    with corpus.opened(recording, ahead.result()) as path:
        yield path
