"""Engines spread recordings over processors and machines.

``local`` starts processes on this machine. ``ray`` and ``dask`` use the cluster of the user, at
``RAY_ADDRESS`` or ``DASK_SCHEDULER_ADDRESS``; without an address each starts one on this machine. All workers
need mcpproxy, and have to reach the recordings and the results.
"""

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Final, TypeAlias

from mcpproxy.base import own_process
from mcpproxy.errors import McpProxyError, UsageError
from mcpproxy.send.fleet.judge.client import JudgeJob, NoJudgeError
from mcpproxy.send.fleet.judge.corpus import FleetRecording
from mcpproxy.send.fleet.judge.guard import judge_units
from mcpproxy.send.fleet.judge.unit import UnitResult

_INSTALL: Final = {"ray": "ray", "dask": "distributed"}
"""Engine -> the package that it needs, which is also the module that is imported."""

_MOST_IN_BATCH: Final = 500
_BATCHES_PER_WORKER: Final = 4
"""How many batches each worker gets at least, if there are as many recordings."""


@dataclass(frozen=True, slots=True)
class UnitBatch:
    """Recordings that are judged one after another by one process."""

    job: JudgeJob
    recordings: tuple[FleetRecording, ...]


Engine: TypeAlias = Callable[[Sequence[UnitBatch], int], Iterator[list[UnitResult]]]
"""Judges batches with a number of workers, and yields lists of results, each as soon as it is there."""


def judge_batch(batch: UnitBatch) -> list[UnitResult]:
    """Judge the recordings of a batch. Workers of Ray and Dask call this function, and may repeat a call.

    Raises:
        NoJudgeError: no process can be started to judge them, or it would judge by other rules than the job.
    """
    try:
        key = batch.job.rules.key()
    except McpProxyError as error:  # many of these errors cannot be pickled
        raise NoJudgeError(str(error)) from None
    if key != batch.job.key:
        fact = f"a worker judges by {key}, and this run by {batch.job.key}"
        raise NoJudgeError(f"check --engine: {fact}; install the same mcpproxy and rules there")
    return list(judge_units(batch.job, batch.recordings))


@contextmanager
def isolated_workers() -> Generator[None]:
    """Let another package start workers on this machine that do not import from the working directory.

    All workers inherit ``PYTHONSAFEPATH``. Ray also puts the current directory in front of their path; here
    that is the folder from which they import mcpproxy anyway.
    """
    os.environ["PYTHONSAFEPATH"] = "1"
    with chdir(own_process.ROOT):
        yield


def check_installed(engine: str) -> None:
    """Check that the package of an engine is installed.

    Raises:
        UsageError: it is not.
    """
    package = _INSTALL.get(engine)
    if package is not None and find_spec(package) is None:
        raise UsageError(f"--engine {engine}", f"needs {package}", f"pip install {package}")


def judge_all(
    engine: str, job: JudgeJob, recordings: Sequence[FleetRecording], workers: int
) -> Iterator[UnitResult]:
    """Yield the result of each recording as it is judged, in no particular order.

    ``engine`` is one of ``shard.ENGINES``. ``workers`` is how many work at the same time, unless the cluster
    existed before.

    Raises:
        McpProxyError: the engine cannot judge them.
    """
    if not recordings:
        return
    module = import_module(f"mcpproxy.send.fleet.judge.engine_{engine}")
    run: Engine = module.run
    for results in run(list(batches(job, recordings, workers)), workers):
        yield from results


def batches(job: JudgeJob, recordings: Sequence[FleetRecording], workers: int) -> Iterator[UnitBatch]:
    """Yield the recordings in batches: a few for each worker, so that all are busy until the end."""
    size = max(1, min(_MOST_IN_BATCH, len(recordings) // (workers * _BATCHES_PER_WORKER)))
    for first in range(0, len(recordings), size):
        yield UnitBatch(job, tuple(recordings[first : first + size]))
