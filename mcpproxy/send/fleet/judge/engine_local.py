"""The engine ``local``: processes on this machine, each fed by a thread."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from queue import Empty, SimpleQueue
from threading import Event, Thread

from mcpproxy.errors import McpProxyError
from mcpproxy.send.fleet.judge.corpus import FleetRecording
from mcpproxy.send.fleet.judge.engine import UnitBatch
from mcpproxy.send.fleet.judge.guard import judge_units
from mcpproxy.send.fleet.judge.unit import UnitResult


def run(batches: Sequence[UnitBatch], workers: int) -> Iterator[list[UnitResult]]:
    """Judge the recordings of all ``batches``; see ``engine.Engine``.

    Each worker takes recordings from all batches, so a batch needs no process of its own.

    Raises:
        McpProxyError: a worker cannot judge them.
        RuntimeError: a worker failed in another way.
    """
    waiting: SimpleQueue[FleetRecording] = SimpleQueue()
    done: SimpleQueue[UnitResult | BaseException | None] = SimpleQueue()
    for batch in batches:
        for recording in batch.recordings:
            waiting.put(recording)
    is_over = Event()

    def next_recordings() -> Iterator[FleetRecording]:
        try:
            while not is_over.is_set():
                yield waiting.get_nowait()
        except Empty:
            pass

    def judge_recordings() -> None:
        try:
            with closing(judge_units(batches[0].job, next_recordings())) as results:
                for result in results:
                    done.put(result)
                    if is_over.is_set():
                        break
        except BaseException as error:  # it is raised again in the thread that waits for results
            done.put(error)
        finally:
            done.put(None)

    threads = [Thread(target=judge_recordings, daemon=True) for _ in range(workers)]
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
