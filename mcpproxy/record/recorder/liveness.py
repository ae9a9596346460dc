"""Find out whether the relay of a recording, the process that forwards the traffic, is still running.

This is needed only if no recorder (the process that makes the trace) holds the lock of the journal (the
relay's copy of the traffic): a held lock proves that the recording is under way. The relay holds a lock, too,
which every container of the machine can see. If that lock is free, the process id in the header of the trace
decides. A process id alone proves nothing, because the system reuses ids, and in a container the relay often
has the id 1. So a process is considered the relay only if it started shortly before the recording began, or
if its start cannot be found out. If the machine was booted later, the relay cannot be running.

A relay in a container has another process id outside the container than inside. If the process with the id in
the header of the trace is not the relay, all other processes are searched for one that has this id in its own
namespace."""

import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import Final

from mcpproxy.base.files import Folder
from mcpproxy.record.recorder.lock import is_held_by_relay
from mcpproxy.record.trace.records import Header

PROC: Final = "/proc"

_LONGEST_START_NS: Final = 60_000_000_000
"""How long before its recording a relay may have started: on a loaded machine, its start takes some
seconds."""

_TOLERANCE_NS: Final = 2_000_000_000
"""How wrong a start time by the machine's clock may be: ``ps`` gives seconds, and the clock may have been set
since."""


def is_relay_there(folder: Folder, header: Header | None) -> bool:
    """Whether the relay that writes to the journal ``folder`` may still be running, as far as can be known.

    ``header`` is that of the recording; ``None`` if it cannot be read.
    """
    return is_held_by_relay(folder) or (header is not None and is_relay_alive(header))


def is_relay_alive(header: Header) -> bool:
    """Whether the relay that began this recording may still be running, as far as can be known.

    A process id of 0 stands for none, and this process is not the relay.
    """
    if header.pid in (0, os.getpid()):
        return False
    if time.monotonic_ns() < header.started_ns:
        return False  # the machine was booted since then
    if sys.platform == "win32":
        return _is_relay_by_handle(header)
    if not os.path.exists(f"{PROC}/self/stat"):
        return _is_relay_by_ps(header)
    if header.boot and header.boot != boot_id():
        return False
    return _is_relay(header.pid, header) or any(
        _innermost_pid(pid) == header.pid and _is_relay(pid, header) for pid in _process_ids()
    )


def boot_id() -> str:
    """Return the id of this boot of the machine; empty if the system has none."""
    try:
        with open(f"{PROC}/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return ""


def _is_relay(pid: int, header: Header) -> bool:
    """Whether a process started at a time when the relay of the recording can have started, or is hidden."""
    try:
        with open(f"{PROC}/{pid}/stat", "rb") as file:
            # The second field is the program's name in parentheses, which may hold anything.
            ticks = int(file.read().rpartition(b")")[2].split()[19])
    except OSError:
        return _is_hidden(pid)
    except (ValueError, IndexError):
        return False
    # The kernel's start time includes the time that the machine slept; the clock of a recording does not.
    process_start_ns = ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    slept_ns = max(0, time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns())
    return header.started_ns - _LONGEST_START_NS <= process_start_ns <= header.started_ns + slept_ns


def _is_hidden(pid: int) -> bool:
    """Whether the process exists but belongs to another user, whose processes are hidden (``hidepid``)."""
    try:
        os.kill(pid, 0)
    except OSError as fault:
        return isinstance(fault, PermissionError)
    return False


def _process_ids() -> list[int]:
    try:
        return [int(name) for name in os.listdir(PROC) if name.isdecimal()]
    except OSError:
        return []


def _innermost_pid(pid: int) -> int:
    """Return the id of a process in its innermost namespace; 0 if that is our own, or cannot be found out."""
    try:
        with open(f"{PROC}/{pid}/status", "rb") as file:
            numbers = next((line for line in file if line.startswith(b"NSpid:")), b"").split()[1:]
    except OSError:
        return 0
    return int(numbers[-1]) if len(numbers) > 1 else 0


def _is_relay_by_ps(header: Header) -> bool:
    """Like ``is_relay_alive``, for systems without /proc: ask ``ps`` when the process was started."""
    try:
        os.kill(header.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    environment = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
    command = ["ps", "-o", "lstart=", "-p", str(header.pid)]
    try:
        output = subprocess.run(command, capture_output=True, text=True, env=environment, check=False).stdout
        process_start = datetime.strptime(output.strip(), "%a %b %d %H:%M:%S %Y").replace(tzinfo=UTC)
    except (OSError, ValueError):
        return True  # unknown, so it may be the relay
    return _fits_start(process_start, header)


def _is_relay_by_handle(header: Header) -> bool:
    """Like ``is_relay_alive``, for Windows: ask the system when the process was started."""
    from mcpproxy.base.windows_process import start_time

    try:
        process_start = start_time(header.pid)
    except PermissionError:
        return True  # it may be the relay
    return process_start is not None and _fits_start(process_start, header)


def _fits_start(process_start: datetime, header: Header) -> bool:
    """Whether a process with this start time may be the relay, according to the machine's clock."""
    before_ns = header.started_unix_ns - process_start.timestamp() * 1e9
    is_unknown = not header.started_unix_ns
    return is_unknown or -_TOLERANCE_NS <= before_ns <= _LONGEST_START_NS + _TOLERANCE_NS
