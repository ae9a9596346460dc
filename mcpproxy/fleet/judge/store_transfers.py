"""How recordings come to the process that judges them, and how results leave it.

A store answers after milliseconds, one far away after tens of them, and a small recording is judged in two.
So the next recordings are fetched while one is judged, and results are written while the next are. What was
fetched ahead is bytes of a bounded size, which nobody looks at before its turn: a hostile recording harms
only itself.
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
from mcpproxy.fleet.judge.judge_results import Results, StoreResults
from mcpproxy.fleet.judge.judge_unit import UnitResult
from mcpproxy.fleet.judge.read_ahead import LARGEST_AHEAD_BYTES, REQUESTS
from mcpproxy.fleet.judge.shard_corpus import Corpus, FleetRecording, StoreCorpus

OUT_OF_MEMORY: Final = 86
"""The exit code of the process after it could get no more memory."""

_STACK_BYTES: Final = 1 << 20
"""The stacks of all threads count towards the memory that the process may have."""


@dataclass(slots=True)
class JudgeTurn:
    """A recording that is to be judged; ``ahead`` are its objects, if they were fetched ahead."""

    number: int
    recording: FleetRecording
    ahead: Future[tuple[bytes, ...]] | None = None


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of the recording with this number; its result is written, if it has one."""

    number: int
    result: UnitResult


class Transfers:
    """Recordings and results where each is read and written in its turn: in folders."""

    def __init__(self, corpus: Corpus, results: Results) -> None:
        self._corpus: Final = corpus
        self._results: Final = results
        self._kept: Final[deque[Kept]] = deque()

    def steps(self, turns: Iterable[JudgeTurn]) -> Iterator[JudgeTurn | Kept]:
        """Yield each of ``turns``, and for each result what became of it after it was given to ``keep``."""
        for turn in turns:
            yield turn
            yield from self._now_kept()

    def opened(self, turn: JudgeTurn) -> AbstractContextManager[str]:
        """Return the path of a recording, for as long as it is needed.

        Raises:
            McpProxyError: it cannot be fetched.
        """
        return self._corpus.opened(turn.recording)

    def keep(self, number: int, result: UnitResult) -> None:
        """Write the result of the turn with this number, now or later."""
        self._keep(number, result)

    def _keep(self, number: int, result: UnitResult) -> None:
        try:
            if result.record:
                self._results.put_new(result.name, result.record)
        except McpProxyError as fault:
            result = UnitResult(result.name, "skipped", reason=str(fault))
        self._kept.append(Kept(number, result))

    def _now_kept(self) -> Iterator[Kept]:
        while self._kept:
            yield self._kept.popleft()


class StoreTransfers(Transfers):
    """The same where one of the two is in a store: fetched before its turn, and written after it."""

    def __init__(self, corpus: Corpus, results: Results) -> None:
        super().__init__(corpus, results)
        threading.stack_size(_STACK_BYTES)
        self._pool: Final = ThreadPoolExecutor(REQUESTS)
        self._arrived: Final[SimpleQueue[JudgeTurn | None]] = SimpleQueue()
        """Turns, and ``None`` whenever something else has happened."""
        self._is_over = False

    def steps(self, turns: Iterable[JudgeTurn]) -> Iterator[JudgeTurn | Kept]:
        threading.Thread(target=self._look_ahead, args=(turns,), daemon=True).start()
        while not self._is_over or not self._arrived.empty():
            turn = self._arrived.get()
            yield from self._now_kept()
            if turn is not None:
                yield turn
        self._pool.shutdown()
        yield from self._now_kept()

    def opened(self, turn: JudgeTurn) -> AbstractContextManager[str]:
        if turn.ahead is None or not isinstance(self._corpus, StoreCorpus):
            return super().opened(turn)
        return self._corpus.opened(turn.recording, turn.ahead.result())

    def keep(self, number: int, result: UnitResult) -> None:
        is_small = len(result.record) <= LARGEST_AHEAD_BYTES  # a larger one is written before the next turn
        if result.record and is_small and isinstance(self._results, StoreResults):
            self._pool.submit(self._keep_aside, number, result)
        else:
            self._keep(number, result)
            self._arrived.put(None)

    def _look_ahead(self, turns: Iterable[JudgeTurn]) -> None:
        try:
            for turn in turns:
                if isinstance(self._corpus, StoreCorpus) and turn.recording.size <= LARGEST_AHEAD_BYTES:
                    turn.ahead = self._pool.submit(self._corpus.packed, turn.recording, LARGEST_AHEAD_BYTES)
                self._arrived.put(turn)
        finally:
            self._is_over = True
            self._arrived.put(None)

    def _keep_aside(self, number: int, result: UnitResult) -> None:
        try:
            self._keep(number, result)
        except MemoryError:
            os._exit(OUT_OF_MEMORY)
        except BaseException:  # the top of a thread: without an answer the parent would wait for ever
            traceback.print_exc()
            os._exit(1)
        self._arrived.put(None)
