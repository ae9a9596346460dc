"""Reads recordings for the process that judges them, and writes its results.

A store takes milliseconds to answer, a distant one tens of them, and a small recording is judged in two. So
while one recording is judged, the next ones are fetched and earlier results are written. The bytes that are
fetched ahead are bounded, and nobody looks at them before their turn: a hostile recording harms only itself.
"""

import os
import threading
import traceback
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Final

from mcpproxy.errors import McpProxyError
from mcpproxy.send.fleet.judge.corpus import Corpus, FleetRecording, StoreCorpus
from mcpproxy.send.fleet.judge.read_ahead import LARGEST_AHEAD_BYTES, REQUESTS
from mcpproxy.send.fleet.judge.results import Results, StoreResults
from mcpproxy.send.fleet.judge.unit import UnitResult

OUT_OF_MEMORY: Final = 86
"""The exit code of the process if it ran out of memory."""

_STACK_BYTES: Final = 1 << 20
"""The size of a thread's stack: the stacks of all threads count towards the memory of the process."""


@dataclass(slots=True)
class JudgeTurn:
    """A recording to judge. ``ahead`` gives its objects, and is ``None`` if they are fetched in its turn."""

    number: int
    recording: FleetRecording
    ahead: Future[tuple[bytes, ...]] | None = None


@dataclass(frozen=True, slots=True)
class KeptResult:
    """The result of the recording with this number. If it has a record, that has been written."""

    number: int
    result: UnitResult


class Transfers:
    """Transfers in folders: each recording is read, and its result written, in its turn."""

    def __init__(self, corpus: Corpus, results: Results) -> None:
        self._corpus: Final = corpus
        self._results: Final = results
        self._kept: Final[deque[KeptResult]] = deque()

    def steps(self, turns: Iterable[JudgeTurn]) -> Iterator[JudgeTurn | KeptResult]:
        """Yield each of ``turns``, and a ``KeptResult`` for each result that was given to ``keep_result``."""
        for turn in turns:
            yield turn
            yield from self._drain_kept()

    def opened(self, turn: JudgeTurn) -> AbstractContextManager[str]:
        """Return a context manager that gives the path of a recording.

        Raises:
            McpProxyError: it cannot be fetched.
        """
        return self._corpus.opened(turn.recording)

    def keep_result(self, number: int, result: UnitResult) -> None:
        """Write the record of a result, now or later, and then let ``steps`` yield it as a ``KeptResult``.

        ``number`` is the number of its turn. If the record cannot be written, the recording counts as
        skipped.
        """
        self._write_result(number, result)

    def _write_result(self, number: int, result: UnitResult) -> None:
        try:
            if result.record:
                self._results.put_new(result.name, result.record)
        except McpProxyError as fault:
            result = UnitResult(result.name, "skipped", reason=str(fault))
        self._kept.append(KeptResult(number, result))

    def _drain_kept(self) -> Iterator[KeptResult]:
        while self._kept:
            yield self._kept.popleft()


class StoreTransfers(Transfers):
    """Transfers with a store: small recordings are fetched before their turn, small results written later."""

    def __init__(self, corpus: Corpus, results: Results) -> None:
        super().__init__(corpus, results)
        threading.stack_size(_STACK_BYTES)
        self._pool: Final = ThreadPoolExecutor(REQUESTS)
        self._arrived: Final[SimpleQueue[JudgeTurn | None]] = SimpleQueue()
        """Turns; ``None`` says that a result was kept, or that there are no more turns."""
        self._has_all_turns = False
        """Whether ``_arrived`` gets no more turns."""

    def steps(self, turns: Iterable[JudgeTurn]) -> Iterator[JudgeTurn | KeptResult]:
        threading.Thread(target=self._fetch_ahead, args=(turns,), daemon=True).start()
        while not self._has_all_turns or not self._arrived.empty():
            turn = self._arrived.get()
            yield from self._drain_kept()
            if turn is not None:
                yield turn
        self._pool.shutdown()
        yield from self._drain_kept()

    def opened(self, turn: JudgeTurn) -> AbstractContextManager[str]:
        if turn.ahead is None or not isinstance(self._corpus, StoreCorpus):
            return super().opened(turn)
        return self._corpus.opened(turn.recording, turn.ahead.result())

    def keep_result(self, number: int, result: UnitResult) -> None:
        is_small = len(result.record) <= LARGEST_AHEAD_BYTES  # a larger one is written before the next turn
        if result.record and is_small and isinstance(self._results, StoreResults):
            self._pool.submit(self._write_in_pool, number, result)
        else:
            self._write_result(number, result)
            self._arrived.put(None)

    def _fetch_ahead(self, turns: Iterable[JudgeTurn]) -> None:
        try:
            for turn in turns:
                if isinstance(self._corpus, StoreCorpus) and turn.recording.size <= LARGEST_AHEAD_BYTES:
                    turn.ahead = self._pool.submit(self._corpus.packed, turn.recording, LARGEST_AHEAD_BYTES)
                self._arrived.put(turn)
        finally:
            self._has_all_turns = True
            self._arrived.put(None)

    def _write_in_pool(self, number: int, result: UnitResult) -> None:
        try:
            self._write_result(number, result)
        except MemoryError:
            os._exit(OUT_OF_MEMORY)
        except BaseException:  # in a thread: the parent would wait for this result for ever
            traceback.print_exc()
            os._exit(1)
        self._arrived.put(None)
