"""What an attack is, and the stage it is played on: a folder of its own and the command under attack."""

import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, TypeAlias, TypeVar

from mcpproxy.base.ready import is_readable

_Case = TypeVar("_Case")
_Seen = TypeVar("_Seen")

DEADLINE_S: Final = 60
"""Far more than any command here needs, on a busy machine too: one that takes longer hangs."""

MEMORY_BYTES: Final = 4 << 30
"""What a command may have of memory, so that one that reads an endless file does not take the machine."""

AT_ONCE: Final = 3
"""How many cases of an attack are played at once."""

PYTHON: Final = (sys.executable, "-S")


class BrokenError(Exception):
    """The attack has done what it must not do; the message says what was seen."""


def read(stream: IO[bytes] | None, enough: Callable[[bytes], bool]) -> bytes:
    """Read until it is enough, without reading ahead of what has come.

    Raises:
        BrokenError: it ends before, or nothing more comes.
    """
    assert stream is not None
    got = b""
    while not enough(got):
        is_there = is_readable(stream, DEADLINE_S)
        if not is_there or not (data := os.read(stream.fileno(), 1 << 16)):
            raise BrokenError(f"{'it ends' if is_there else 'nothing comes'} after {got[-60:]!r}")
        got += data
    return got


def is_line(got: bytes) -> bool:
    return got.endswith(b"\n")


@dataclass(frozen=True, slots=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str


class Stage:
    """Runs the command in an environment that leads nowhere else; ends what is left of it.

    Args:
        mcpproxy: the path of the command.
        folder: an empty folder; nothing outside of it is written.
    """

    def __init__(self, mcpproxy: str, folder: Path) -> None:
        self.mcpproxy, self.folder = mcpproxy, folder
        self.state = folder / "state"
        self._processes: list[subprocess.Popen[bytes]] = []
        for name in ("home", "tmp"):
            (folder / name).mkdir(mode=0o700)
        self.env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "LC_ALL": "C.UTF-8",
            "HOME": str(folder / "home"),
            "TMPDIR": str(folder / "tmp"),
            "XDG_STATE_HOME": str(self.state),
        }

    def run(self, *arguments: str, stdin: bytes = b"", doing: str = "") -> Done:
        """Run the command to its end.

        Raises:
            BrokenError: it hangs, or breaks off with a traceback. ``doing`` says what it was at.
        """
        named = doing or arguments[0]
        process = self.start(*arguments)
        try:
            out, err = process.communicate(stdin, DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate(timeout=DEADLINE_S)
            raise BrokenError(f"{named} hangs") from None
        done = Done(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))
        if "Traceback (most recent" in done.err:
            raise BrokenError(f"{named}: traceback, {done.err.strip().splitlines()[-1][:80]}")
        return done

    def start(
        self,
        *arguments: str,
        before: tuple[str, ...] = (),
        stdin: int = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
    ) -> "subprocess.Popen[bytes]":
        """Start the command; ``before`` is what it is started by."""
        process = subprocess.Popen(
            [*before, self.mcpproxy, *arguments],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=self.env,
            cwd=self.folder,
        )
        with suppress(PermissionError):  # it has lowered the limit itself by now
            resource.prlimit(process.pid, resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        self._processes.append(process)
        return process

    def wait(self, process: "subprocess.Popen[bytes]", doing: str) -> int:
        """The exit code of a process that is to end now."""
        try:
            return process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            raise BrokenError(f"{doing}: it does not end") from None

    def looks(self, awaited: str) -> Generator[None]:
        """Look again and again, for as long as something may take.

        Raises:
            BrokenError: it did not come.
        """
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            yield
            select.select([], [], [], 0.005)
        raise BrokenError(f"{awaited} did not come")

    def close(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait(DEADLINE_S)
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()


Play: TypeAlias = Callable[[Stage], str]
"""Plays the attack and returns what was seen when it had no effect.

Raises:
    BrokenError: it had one.
"""


@dataclass(frozen=True, slots=True)
class Attack:
    """``line`` is what must hold whatever is tried."""

    name: str
    line: str
    play: Play


class Table(list[Attack]):
    """The attacks of one chapter, in the order in which they are declared."""

    def __call__(self, play: Play) -> Play:
        """Declare an attack; its docstring is its line."""
        self.append(Attack(play.__name__, (play.__doc__ or "").strip().removesuffix("."), play))
        return play


@contextmanager
def stage(mcpproxy: str) -> Generator[Stage]:
    """A stage in a temporary folder that goes with it."""
    folder = Path(tempfile.mkdtemp(prefix="mcpproxy-attacks-"))
    opened = Stage(mcpproxy, folder)
    try:
        yield opened
    finally:
        opened.close()
        shutil.rmtree(folder, ignore_errors=True)


def installed() -> str:
    """The command of the environment that this runs in.

    Raises:
        FileNotFoundError: there is none.
    """
    beside = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ.get('PATH', '')}"
    found = shutil.which("mcpproxy", path=beside)
    if found is None:
        raise FileNotFoundError("mcpproxy: no such command; install it or name it with --mcpproxy")
    return found


def hold(condition: object, seen: str) -> None:
    """Go on if ``condition`` is true.

    Raises:
        BrokenError: it is not; ``seen`` is its message.
    """
    if not condition:
        raise BrokenError(seen)


def side_by_side(play: Callable[[_Case], _Seen], cases: Iterable[_Case]) -> list[_Seen]:
    """Play cases of an attack that mostly wait, ``AT_ONCE`` of them at once; what was seen, in their order.

    Raises:
        BrokenError: a case had an effect. The others have ended by then.
    """
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(play, cases))
