"""A share of the processors for a command: what it uses in all may be held, so that others have the rest."""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_ROOT: Final = Path("/sys/fs/cgroup")
_PERIOD_US: Final = 10_000


@contextmanager
def quota(processors: float) -> Generator[Callable[[], None]]:
    """Yield what a new process calls to be held, with all that it starts, to so many processors.

    Raises:
        OSError: this machine or this user has no control groups.
    """
    is_old = (_ROOT / "cpu").is_dir()
    group = (_ROOT / "cpu" if is_old else _ROOT) / f"mcpproxy-benchmark-{os.getpid()}"
    group.mkdir()
    try:
        allowed_us = int(processors * _PERIOD_US)
        if is_old:
            (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(allowed_us))
        else:
            (group / "cpu.max").write_text(f"{allowed_us} {_PERIOD_US}")
        yield lambda: _enter(group)
    finally:
        group.rmdir()


def _enter(group: Path) -> None:
    (group / "cgroup.procs").write_text(str(os.getpid()))
