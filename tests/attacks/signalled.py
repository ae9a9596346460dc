"""Signals: what a host does with the process group of a wrapped server, and what it has ignored before."""

import os
import signal
import subprocess
import sys
from typing import Final

from tests.attacks.stage import DEADLINE_S, Stage, Table, hold, is_line, read
from tests.relay.hosts import peer
from tests.relay.signal_counts import seen

TABLE: Final = Table()

_LEADING: Final = (
    sys.executable,
    "-c",
    "import os, sys; os.setpgid(0, 0); os.execv(sys.argv[1], sys.argv[1:])",
)


def _tally(stage: Stage) -> "subprocess.Popen[bytes]":
    """A wrapped server that leads a group with us and tells which signals come."""
    options = ("run", "--quiet", "--trace", str(stage.folder / "t.jsonl"), "--")
    process = stage.start(*options, *peer("tally"), before=_LEADING)
    hold(read(process.stdout, is_line) == b"ready\n", "the server does not start")
    _ask(process)  # a first answer may be there before the witness
    return process


def _ask(process: "subprocess.Popen[bytes]") -> tuple[bytes, bytes]:
    assert process.stdin is not None
    process.stdin.write(b"?\n")
    process.stdin.flush()
    return seen(read(process.stdout, is_line))


@TABLE
def signals_to_the_group(stage: Stage) -> str:
    """A host that signals the process group: the server and its child get each signal once."""
    process = _tally(stage)
    odd: list[str] = []
    names = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGRTMIN")
    for name in names * 5:
        number = int(getattr(signal, name))
        os.killpg(process.pid, number)
        if (got := _ask(process)) != (bytes([number]), bytes([number])):
            odd.append(f"{name} came {len(got[0])} and {len(got[1])} times")
    hold(not odd, f"{len(odd)} of {5 * len(names)}: {', '.join(odd[:3])}")
    return f"{5 * len(names)} of {5 * len(names)} once"


@TABLE
def signals_to_us_and_to_the_group(stage: Stage) -> str:
    """300 real-time signals, 200 to the group and 100 to our process: the server gets 300."""
    process = _tally(stage)
    for number in range(300):
        (os.killpg if number % 3 else os.kill)(process.pid, signal.SIGRTMIN)
    server, child = _ask(process)
    hold((len(server), len(child)) == (300, 200), f"the server got {len(server)}, its child {len(child)}")
    return "300, and its child 200"


@TABLE
def dispositions_of_all_signals(stage: Stage) -> str:
    """The server starts with the host's disposition of every signal, those of the C library among them."""
    command = ("grep", "SigIgn", "/proc/self/status")
    options = ("run", "--quiet", "--trace", str(stage.folder / "t.jsonl"), "--")
    plain = subprocess.run(command, stdout=subprocess.PIPE, timeout=DEADLINE_S, check=True).stdout
    wrapped = stage.run(*options, *command).out.encode()
    hold(wrapped == plain, f"{wrapped.split()[1:]!r}, unwrapped {plain.split()[1:]!r}")
    return "as unwrapped"
