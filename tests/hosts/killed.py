"""``python -m tests.hosts.killed FOLDER RUNS``: wrap and unwrap, killed at random moments.

A child process wraps all servers of several hosts, or unwraps them, and a timer ends it at a moment between
its start and its usual end. The timer's signal has no handler, so nothing more of the program runs, as after
``kill -9``. Afterwards each file must be as it was before or as it is after the command; and ``unwrap --all``
must give back every file, whatever has happened.
"""

import os
import random
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from mcpproxy.cli.main import main
from tests.hosts.many import make

WRAP: Final[tuple[str, ...]] = ("wrap", "--all", "--yes", "--command", "/opt/mcpproxy")
UNWRAP: Final[tuple[str, ...]] = ("unwrap", "--all")
SEED: Final = 20
HOSTS: Final = 6


def play(folder: Path, runs: int) -> str:
    """Return what was seen, as one line.

    Raises:
        AssertionError: a file was neither as before nor as after, or did not come back.
    """
    random_ = random.Random(SEED)
    home = folder / "home"
    os.environ |= {"HOME": str(home), "XDG_STATE_HOME": str(folder / "state")}
    original = make(home, HOSTS)
    os.chdir(home)
    length_s: dict[tuple[str, ...], float] = {WRAP: took(WRAP)}
    wrapped = contents(original)
    length_s[UNWRAP] = took(UNWRAP)
    assert contents(original) == original
    seen = {"nothing was written": 0, "some files were written": 0, "all files were written": 0}
    for number in range(runs):
        command = (WRAP, UNWRAP)[number % 2]
        before, after = (original, wrapped) if command == WRAP else (wrapped, original)
        if command == UNWRAP:
            length_s[WRAP] = took(WRAP)  # measured anew, because a machine may have more to do now
        started(command, kill_after_s=random_.uniform(0, length_s[command]))
        now = contents(original)
        assert all(now[path] in (before[path], after[path]) for path in original), number
        written = sum(now[path] == after[path] for path in original)
        for lock in home.rglob("*.lock"):
            os.utime(lock, (0, 0))  # left behind by the kill; it counts no more after ten seconds
        seen[list(seen)[(written > 0) + (written == len(original))]] += 1
        length_s[UNWRAP] = took(UNWRAP)
        assert contents(original) == original, number
        left = [path for path in home.rglob("*") if path.is_file() and path not in original]
        assert not left, (number, left)
    return ", ".join(f"{what}: {times}" for what, times in seen.items())


def contents(paths: Mapping[Path, bytes]) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in paths}


def took(command: tuple[str, ...]) -> float:
    """Run a command to its end; return the seconds that it took."""
    start = time.monotonic()
    assert started(command) == 0, command
    return time.monotonic() - start


def started(command: tuple[str, ...], kill_after_s: float = 0) -> int:
    """Run a command in a process of its own; return its exit status."""
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if kill_after_s:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, kill_after_s)
        os._exit(main([*command]))
    return os.waitpid(child, 0)[1]


if __name__ == "__main__":
    sys.stdout.write(play(Path(sys.argv[1]), int(sys.argv[2])) + "\n")
