"""``python -m tests.hosts.killed FOLDER RUNS``: wrap and unwrap, killed at random moments.

A child process wraps all servers of several hosts, or unwraps them, and kills itself when it has called so
many functions: at a moment between its first call and its last, however busy the machine is. Afterwards each
file must be as it was before or as it is after the command; and ``unwrap --all`` must give back every file,
whatever has happened.
"""

import os
import random
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from mcpproxy.cli.main import main
from tests.hosts.many import make

WRAP: Final[tuple[str, ...]] = ("wrap", "--all", "--yes", "--command", "/opt/mcpproxy")
UNWRAP: Final[tuple[str, ...]] = ("unwrap", "--all", "--yes")
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
    calls: dict[tuple[str, ...], int] = {WRAP: run_counted(WRAP)}
    wrapped = contents(original)
    calls[UNWRAP] = run_counted(UNWRAP)
    assert contents(original) == original
    seen = {"nothing was written": 0, "some files were written": 0, "all files were written": 0}
    for number in range(runs):
        command = (WRAP, UNWRAP)[number % 2]
        before, after = (original, wrapped) if command == WRAP else (wrapped, original)
        if command == UNWRAP:
            calls[WRAP] = run_counted(WRAP)
        run_child(command, random_.randint(1, calls[command]))
        now = contents(original)
        assert all(now[path] in (before[path], after[path]) for path in original), number
        written = sum(now[path] == after[path] for path in original)
        for lock in home.rglob("*.lock"):
            os.utime(lock, (0, 0))  # left behind by the kill; it counts no more after ten seconds
        seen[list(seen)[(written > 0) + (written == len(original))]] += 1
        calls[UNWRAP] = run_counted(UNWRAP)
        assert contents(original) == original, number
        left = [path for path in home.rglob("*") if path.is_file() and path not in original]
        assert not left, (number, left)
    return ", ".join(f"{what}: {times}" for what, times in seen.items())


def contents(paths: Mapping[Path, bytes]) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in paths}


def run_counted(command: tuple[str, ...]) -> int:
    """Run a command to its end; return how many calls and returns of functions it took."""
    status, count = run_child(command)
    assert status == 0, command
    return count


def run_child(command: tuple[str, ...], last: int = 0) -> tuple[int, int]:
    """Run a command in a process of its own, which kills itself at the call or return number ``last``.

    Returns:
        Its exit status, and how many calls and returns there were; 0 if it was killed.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        count = 0

        def on_call(*_: object) -> None:
            nonlocal count
            count += 1
            if count == last:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.setprofile(on_call)
        code = main([*command])
        sys.setprofile(None)
        os.write(writer, b"%d" % count)
        os._exit(code)
    os.close(writer)
    with open(reader, "rb") as said:
        count = int(said.read() or b"0")
    return os.waitpid(child, 0)[1], count


if __name__ == "__main__":
    sys.stdout.write(play(Path(sys.argv[1]), int(sys.argv[2])) + "\n")
