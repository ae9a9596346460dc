"""How recordings come to the process that judges them, and how results leave it.

A store answers after milliseconds, one far away after tens of them, and a small recording is judged in two.
So the next recordings are fetched while one is judged, and results are written while the next are. What was
fetched ahead is bytes of a bounded size, which nobody looks at before its turn: a hostile recording harms
only itself.
"""

import os
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Final, TypeAlias

from mcpproxy.errors import McpProxyError
from mcpproxy.fleet.judge.judge_results import Results, StoreResults
from mcpproxy.fleet.judge.judge_unit import UnitResult
from mcpproxy.fleet.judge.shard_corpus import Corpus, FleetRecording, StoreCorpus

LARGEST_AHEAD_BYTES: Final = 1 << 20
"""A larger recording is fetched in its turn, and a larger result is written before the next turn."""
OUT_OF_MEMORY: Final = 86
"""The exit code of the process after it could get no more memory."""

_REQUESTS: Final = 24
_STACK_BYTES: Final = 1 << 20
"""The stacks of all threads count towards the memory that the process may have."""

Then: TypeAlias = Callable[[UnitResult], object]


@dataclass(slots=True)
class Turn:
    """A recording that is to be judged; ``ahead`` are its objects, if they were fetched ahead."""

    number: int
    recording: FleetRecording
    ahead: Future[tuple[bytes, ...]] | None = None


class InTurn:
    """Recordings and results in folders of this machine, or in stores, each read and written in its turn."""

    def __init__(self, corpus: Corpus, results: Results) -> None:
        self._corpus: Final = corpus
        self._results: Final = results

    def turns(self, turns: Iterator[Turn]) -> Iterator[Turn]:
        """Yield the turns as they are given."""
        return turns

    def opened(self, turn: Turn) -> AbstractContextManager[str]:
        """Return the path of a recording, for as long as it is needed.

        Raises:
            McpProxyError: it cannot be fetched.
        """
        return self._corpus.opened(turn.recording)

    def keep(self, result: UnitResult, then: Then) -> None:
        """Keep a result, and call ``then`` with what became of it, in any thread.

        Raises:
            McpProxyError: it cannot be written.
        """
        if result.record:
            self._results.put_new(result.name, result.record)
        then(result)

    def finish(self) -> None:
        """Wait until all results are kept."""


class StoreTransfers(InTurn):
    """The same where one of the two is in a store: fetched before its turn, and written after it."""

    def __init__(self, corpus: Corpus, results: Results) -> None:
        super().__init__(corpus, results)
        threading.stack_size(_STACK_BYTES)
        self._pool: Final = ThreadPoolExecutor(_REQUESTS)
        self._turns: Final[SimpleQueue[Turn | None]] = SimpleQueue()

    def turns(self, turns: Iterator[Turn]) -> Iterator[Turn]:
        threading.Thread(target=self._look_ahead, args=(turns,), daemon=True).start()
        while (turn := self._turns.get()) is not None:
            yield turn

    def opened(self, turn: Turn) -> AbstractContextManager[str]:
        if turn.ahead is None or not isinstance(self._corpus, StoreCorpus):
            return super().opened(turn)
        return self._corpus.opened(turn.recording, turn.ahead.result())

    def keep(self, result: UnitResult, then: Then) -> None:
        is_small = len(result.record) <= LARGEST_AHEAD_BYTES
        if result.record and is_small and isinstance(self._results, StoreResults):
            self._pool.submit(self._keep_aside, result, then)
        else:
            super().keep(result, then)

    def finish(self) -> None:
        self._pool.shutdown()

    def _look_ahead(self, turns: Iterator[Turn]) -> None:
        try:
            for turn in turns:
                if isinstance(self._corpus, StoreCorpus) and turn.recording.size <= LARGEST_AHEAD_BYTES:
                    turn.ahead = self._pool.submit(self._corpus.packed, turn.recording, LARGEST_AHEAD_BYTES)
                self._turns.put(turn)
        finally:
            self._turns.put(None)

    def _keep_aside(self, result: UnitResult, then: Then) -> None:
        try:
            super().keep(result, then)
        except McpProxyError as fault:
            then(UnitResult(result.name, "skipped", reason=str(fault)))
        except MemoryError:
            os._exit(OUT_OF_MEMORY)
        except BaseException:  # the top of a thread: without an answer the parent would wait for ever
            traceback.print_exc()
            os._exit(1)
