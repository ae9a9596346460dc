"""A share of the processors for a command: what it uses in all may be held, so that others have the rest."""

import errno
import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_ROOT: Final = Path("/sys/fs/cgroup")
_PERIOD_US: Final = 10_000
_ENDING_S: Final = 60


@contextmanager
def quota(processors: float) -> Generator[Callable[[], None]]:
    """Yield what a new process calls to be held, with all that it starts, to so many processors.

    Raises:
        OSError: this machine or this user has no control groups, or what was held does not end.
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
        _remove(group)


def _remove(group: Path) -> None:
    """Remove a group as soon as nothing runs in it: processes of a cluster end after the command."""
    deadline = time.monotonic() + _ENDING_S
    while True:
        try:
            group.rmdir()
        except OSError as fault:
            if fault.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


def _enter(group: Path) -> None:
    (group / "cgroup.procs").write_text(str(os.getpid()))
