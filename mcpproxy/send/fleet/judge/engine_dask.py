"""The Dask engine: each batch is a task, which Dask gives to another worker if its worker dies."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import dask.config as untyped_config
import distributed as untyped_distributed
from distributed.scheduler import KilledWorker

from mcpproxy.errors import UsageError
from mcpproxy.send.fleet.judge.engine import UnitBatch, isolated_workers, judge_batch
from mcpproxy.send.fleet.judge.unit import UnitResult

dask_config: Final[Any] = untyped_config
distributed: Final[Any] = untyped_distributed
"""Their annotations are partly unknown."""

_RETRIES: Final = 3
"""How often a batch is tried again."""


def run(batches: Sequence[UnitBatch], workers: int) -> Iterator[list[UnitResult]]:
    """Judge ``batches``; see ``engine.Engine``.

    Raises:
        UsageError: the scheduler cannot be reached, or a batch failed for good.
        NoJudgeError: as ``judge_batch``.
    """
    address: str | None = dask_config.get("scheduler-address", None)  # from DASK_SCHEDULER_ADDRESS
    cluster: Any = None
    if address is None:
        with isolated_workers():
            cluster = distributed.LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=None
            )
    try:
        client: Any = distributed.Client(cluster or address, set_as_default=False)
    except (OSError, TimeoutError) as error:
        fact = f"the scheduler cannot be reached: {error}"
        raise UsageError(f"--engine dask ({address})", fact, "see DASK_SCHEDULER_ADDRESS") from None
    try:
        futures = client.map(judge_batch, batches, retries=_RETRIES, pure=False)
        for future in distributed.as_completed(futures, loop=client.loop):
            yield future.result()
            future.release()
    except KilledWorker:
        step = "run it again: what is judged is kept"
        raise UsageError("--engine dask", "Dask gave up: several workers died", step) from None
    finally:
        client.close()
        if cluster is not None:
            cluster.close()
