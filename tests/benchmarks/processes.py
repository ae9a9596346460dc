"""What the processes of a session use, read from ``/proc``; nothing on other systems."""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

AVAILABLE: Final = Path("/proc/self/smaps_rollup").exists()


@dataclass(frozen=True)
class Pids:
    """The two processes of mcpproxy in one session."""

    relay: int
    recorder: int


def find(relay: int) -> Pids | None:
    """The recorder is that child of the relay which was forked from it, with the same command line, and leads
    a session. A child that does not lead one yet is waited for: it may become the recorder, or be the witness
    of signals, which takes another name."""
    if not AVAILABLE:
        return None
    while forked := [child for child in children(relay) if _command_line(child) == _command_line(relay)]:
        for child in forked:
            if _leads_a_session(child):
                return Pids(relay, child)
        time.sleep(0.005)
    return None


def children(pid: int) -> list[int]:
    """The children of a process of one thread that is alive."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()]


def _leads_a_session(pid: int) -> bool:
    try:
        return os.getsid(pid) == pid
    except ProcessLookupError:
        return False


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:  # it has ended since it was listed
        return b""


def cpu_seconds(pid: int) -> float:
    """Processor time of all threads so far, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wakeups(pid: int) -> int:
    """How often its threads were given a processor so far: as often as they gave one up, or lost it."""
    statuses = Path(f"/proc/{pid}/task").glob("*/status")
    return sum(
        int(line.split()[1])
        for status in statuses
        for line in status.read_text(encoding="utf-8").splitlines()
        if "ctxt_switches:" in line
    )


def pss_mib(pid: int) -> float:
    """Resident memory with shared pages counted by share."""
    return _kib(f"/proc/{pid}/smaps_rollup", "Pss:") / 1024


def peak_mib(pid: int) -> float:
    """The most that was ever resident, shared pages counted in full."""
    return _kib(f"/proc/{pid}/status", "VmHWM:") / 1024


def _kib(file: str, name: str) -> int:
    for line in Path(file).read_text(encoding="utf-8").splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    return 0
