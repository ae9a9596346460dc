"""How much of a busy machine the recorder takes: little while it keeps up, its share when it is waited for.

The recorder is a session of its own (``setsid``), and where the kernel shares processors out by session,
what counts is the nice value of that session: everybody may raise their own, and take that back. Elsewhere
it is the nice value of the process, which nobody may take back, so that one is modest.

Source: sched(7), The autogroup feature
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

NICE: Final = 5
SESSION_NICE: Final = 10


def lower() -> None:
    """Let the traffic go first; for a process that leads a session of its own."""
    if sys.platform == "linux":
        try:
            # Who wakes us goes on first, whatever the nice values say.
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
            if os.nice(0) < NICE:
                os.nice(NICE)
        except OSError:
            pass  # not everywhere allowed
        _set("self", SESSION_NICE)


def restore(process: int | None = None) -> None:
    """Give the process (this one if ``None``), which has stood back, an equal share again."""
    _set("self" if process is None else str(process), 0)


def _set(process: str, nice: int) -> None:
    try:
        with open(f"/proc/{process}/autogroup", "wb", buffering=0) as file:
            file.write(b"%d" % nice)
    except OSError:
        pass  # another kernel, another system, or a change a moment ago
