"""The engine Ray: a batch is a task. Ray repeats the task if its worker dies."""

import os
import re
import socket
from collections.abc import Iterator, Sequence
from typing import Any, Final

import ray as untyped_ray
from ray.exceptions import RayError, RayTaskError

from mcpproxy.errors import McpProxyError, UsageError
from mcpproxy.send.fleet.judge.engine import UnitBatch, isolated_workers, judge_batch
from mcpproxy.send.fleet.judge.unit import UnitResult

ray: Final[Any] = untyped_ray
"""Its annotations are partly unknown."""

_RETRIES: Final = 3
"""How often a batch is tried again."""
_CONNECT_S: Final = 10.0
"""How long the cluster may take to accept a connection."""
_ADDRESS: Final = re.compile(r"(?:ray://)?([^/:]+):(\d{1,6})")
_AHEAD: Final = 256
"""How many batches Ray has at a time: their results stay in its memory until they are read."""


def run(batches: Sequence[UnitBatch], workers: int) -> Iterator[list[UnitResult]]:
    """Judge ``batches``; see ``engine.Engine``.

    Raises:
        UsageError: the cluster cannot be reached, or a batch failed for good.
        NoJudgeError: as ``judge_batch``.
        RayTaskError: a task failed because of a bug.
    """
    _connect(workers)
    task: Any = ray.remote(num_cpus=1, max_retries=_RETRIES)(judge_batch)
    try:
        waiting = iter(batches)
        running: list[Any] = [task.remote(batch) for _, batch in zip(range(_AHEAD), waiting, strict=False)]
        while running:
            done, running = ray.wait(running)
            for reference in done:
                yield ray.get(reference)
                if (batch := next(waiting, None)) is not None:
                    running.append(task.remote(batch))
    except RayTaskError as error:
        if isinstance(error.cause, McpProxyError):
            raise error.cause from None
        raise
    except RayError as error:
        fact = f"Ray gave up: {str(error).splitlines()[0]}"
        raise UsageError("--engine ray", fact, "run it again: what is judged is kept") from None
    finally:
        ray.shutdown()


def _connect(workers: int) -> None:
    address = os.environ.get("RAY_ADDRESS")
    if address and (parts := _ADDRESS.fullmatch(address)):
        try:  # Ray itself tries for minutes
            socket.create_connection((parts[1], int(parts[2])), _CONNECT_S).close()
        except (OSError, OverflowError) as error:
            fact = f"Ray cannot be reached: {str(error).lower()}"
            raise UsageError(f"--engine ray ({address})", fact, "see RAY_ADDRESS") from None
    options: dict[str, Any] = {} if address else {"num_cpus": workers, "include_dashboard": False}
    try:
        with isolated_workers():
            ray.init(log_to_driver=True, logging_level="error", **options)
    except (RayError, ConnectionError, RuntimeError, ValueError) as error:
        fact = f"Ray cannot be reached: {str(error).splitlines()[0]}"
        raise UsageError(f"--engine ray ({address or 'on this machine'})", fact, "see RAY_ADDRESS") from None
