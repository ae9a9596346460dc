"""The engine without an engine: some processes on this machine, each fed by a thread."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from queue import Empty, SimpleQueue
from threading import Event, Thread

from mcpproxy.errors import McpProxyError
from mcpproxy.fleet.judge.judge_engine import UnitBatch
from mcpproxy.fleet.judge.judge_guard import judge_units
from mcpproxy.fleet.judge.judge_unit import UnitResult
from mcpproxy.fleet.judge.shard_corpus import FleetRecording


def run(batches: Sequence[UnitBatch], workers: int) -> Iterator[list[UnitResult]]:
    """Judge the recordings of all ``batches``; see ``judge_engine.Engine``.

    A process takes recordings from all batches, a few at a time, so it is started only once.
    """
    waiting: SimpleQueue[FleetRecording] = SimpleQueue()
    done: SimpleQueue[UnitResult | BaseException | None] = SimpleQueue()
    for batch in batches:
        for recording in batch.recordings:
            waiting.put(recording)
    is_over = Event()

    def taken() -> Iterator[FleetRecording]:
        try:
            while not is_over.is_set():
                yield waiting.get_nowait()
        except Empty:
            pass

    def work() -> None:
        try:
            with closing(judge_units(batches[0].job, taken())) as results:
                for result in results:
                    done.put(result)
                    if is_over.is_set():
                        break
        except BaseException as error:  # it is raised again in the thread that waits for results
            done.put(error)
        finally:
            done.put(None)

    threads = [Thread(target=work, daemon=True) for _ in range(workers)]
    for thread in threads:
        thread.start()
    try:
        running = len(threads)
        while running:
            result = done.get()
            if result is None:
                running -= 1
            elif isinstance(result, BaseException):
                raise (
                    result if isinstance(result, McpProxyError) else RuntimeError("a worker failed")
                ) from result
            else:
                yield [result]
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
