"""The priority of the recorder, the process that makes the trace: low while it keeps up with the traffic,
normal when it is late or the relay waits for it.

The recorder runs in its own session (``setsid``). If the kernel divides processor time among sessions, it
uses the nice value of the session, which every user may raise and lower again. Otherwise it uses the nice
value of the process. An ordinary user cannot lower the nice value of a process again, so ``lower`` raises it
only a little.

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
"""While the priority is low: by how much the nice value of the process is higher, unless it was as high
already, and the nice value of its session."""


def lower() -> None:
    """Give the traffic precedence over this process, which must lead its own session. Only on Linux."""
    if sys.platform == "linux":
        try:
            # A batch process does not preempt the process that wakes it, whatever the nice values are.
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
            if os.nice(0) < NICE:
                os.nice(NICE)
        except OSError:
            pass  # some sandboxes do not allow it
        _set_session_nice("self", SESSION_NICE)


def restore(process: int | None = None) -> None:
    """Restore the nice value of the session that the process id ``process`` leads (``None``: this process).

    The process keeps its own nice value and remains a batch process. If the system refuses, nothing changes.
    """
    _set_session_nice("self" if process is None else str(process), 0)


def _set_session_nice(process: str, nice: int) -> None:
    try:
        with open(f"/proc/{process}/autogroup", "wb", buffering=0) as file:
            file.write(b"%d" % nice)
    except OSError:
        pass  # this kernel has no such file, or refuses a second change within a moment
