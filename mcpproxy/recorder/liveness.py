"""Whether the relay of a recording still lives.

This is asked only where no recorder holds the lock of the journal, which would be proof enough. A number is
no proof: it is given to another process sooner or later, and in a container the relay is number 1 each time.
So a process counts as the relay only if it was started when the relay was: not after the recording began, and
not long before it. Of a recording that was begun in another boot nothing can live any more.

Seen from outside of a container its relay has another number. Where the process with the number in the header
is not the one, all others are looked at for one that has this number in a namespace of its own.
"""

import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import Final

from mcpproxy.trace.records import Header

PROC: Final = "/proc"

_BEFORE_NS: Final = 60_000_000_000
"""A relay begins to record so long after it was started, at most: a loaded machine takes some seconds."""

_TOLERANCE_NS: Final = 2_000_000_000
"""For a start that is told in whole seconds, by a clock that may have been set."""


def is_relay_alive(header: Header) -> bool:
    """Whether the relay that began this recording may still be writing, as far as can be known."""
    if sys.platform == "win32" or header.pid in (0, os.getpid()):
        return False
    if time.monotonic_ns() < header.started_ns:
        return False  # the machine was started anew since
    if not os.path.exists(f"{PROC}/self/stat"):
        return _may_be_by_ps(header)
    if header.boot and header.boot != boot_id():
        return False
    return _is_relay(header.pid, header) or any(
        _number_inside(pid) == header.pid and _is_relay(pid, header) for pid in _processes()
    )


def boot_id() -> str:
    """What tells this run of the kernel from every other; empty where there is no such thing."""
    try:
        with open(f"{PROC}/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return ""


def _is_relay(pid: int, header: Header) -> bool:
    """Whether the process was started when the relay was."""
    try:
        with open(f"{PROC}/{pid}/stat", "rb") as file:
            # The second field is the program's name in parentheses, which may hold anything.
            ticks = int(file.read().rpartition(b")")[2].split()[19])
    except OSError:
        return _is_hidden(pid)
    except (ValueError, IndexError):
        return False
    # The kernel counts the time that the machine slept, the clock of a recording does not.
    born_ns = ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    slept_ns = max(0, time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns())
    return header.started_ns - _BEFORE_NS <= born_ns <= header.started_ns + slept_ns


def _is_hidden(pid: int) -> bool:
    """Whether there is such a process of another user, of whom this one may know nothing (``hidepid``)."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        pass
    return False


def _processes() -> list[int]:
    try:
        return [int(name) for name in os.listdir(PROC) if name.isdecimal()]
    except OSError:
        return []


def _number_inside(pid: int) -> int:
    """The number that a process has in the innermost namespace that it is in; 0 if that is this one."""
    try:
        with open(f"{PROC}/{pid}/status", "rb") as file:
            numbers = next((line for line in file if line.startswith(b"NSpid:")), b"").split()[1:]
    except OSError:
        return 0
    return int(numbers[-1]) if len(numbers) > 1 else 0


def _may_be_by_ps(header: Header) -> bool:
    """The same where there is no /proc: the program ``ps`` knows when a process was started."""
    try:
        os.kill(header.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    environment = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
    command = ["ps", "-o", "lstart=", "-p", str(header.pid)]
    try:
        told = subprocess.run(command, capture_output=True, text=True, env=environment, check=False).stdout
        born = datetime.strptime(told.strip(), "%a %b %d %H:%M:%S %Y").replace(tzinfo=UTC)
        began = datetime.fromisoformat(header.started_at)
        before_ns = (began - born).total_seconds() * 1e9
    except (OSError, ValueError, TypeError):
        return True  # nothing speaks against it
    return -_TOLERANCE_NS <= before_ns <= _BEFORE_NS + _TOLERANCE_NS
