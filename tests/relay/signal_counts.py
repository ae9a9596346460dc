"""How often each signal reaches a server, wrapped and unwrapped:
``python -m tests.relay.signal_counts [--mcpproxy PATH] [--sessions N]``.

A session is one server that is sent six signals, one after the other. The hosts are one without a terminal
(``killpg``), one with a terminal (its keys, where it has one for the signal; otherwise ``killpg``), and the
Python SDK, which ends a server that does not go with SIGTERM to its group.
"""

import argparse
import collections
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.relay.hosts import DEADLINE_S, HOME, Host, peer

NAMES: Final = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
KEYS: Final = {signal.SIGINT: b"\x03", signal.SIGQUIT: b"\x1c", signal.SIGTSTP: b"\x1a"}

IN_FOREGROUND: Final = (
    "import fcntl, os, sys, termios\n"
    "os.setsid()\n"
    "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
    "mode = termios.tcgetattr(0)\n"
    "mode[3] &= ~termios.ECHO\n"
    "mode[3] |= termios.NOFLSH\n"  # a key for a signal takes no input away
    "termios.tcsetattr(0, termios.TCSANOW, mode)\n"
    "os.execv(sys.argv[1], sys.argv[1:])\n"
)

Seen = tuple[bytes, bytes]
"""The numbers of the signals that the server and a child of the server have received, in order."""


def seen(line: bytes) -> Seen:
    """What an answer of ``peers.tally`` says."""
    server, child = line.strip(b"<>\r\n").split(b"|")
    return bytes.fromhex(server.decode()), bytes.fromhex(child.decode())


class PipeHost:
    """A host without a terminal; the command, ``peers.tally``, is in a group of its own."""

    def __init__(self, command: list[str], env: dict[str, str] | None = None) -> None:
        self._host = Host(command, process_group=0, env=env)
        self.pid = self._host.process.pid
        self._line()

    def send(self, number: int) -> None:
        os.killpg(self.pid, number)

    def ask(self) -> Seen:
        self._host.write(b"?\n")
        return seen(self._line())

    def _line(self) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            line += self._host.read(1)
        return line

    def close(self) -> None:
        self._host.__exit__(None, None, None)


class LoneHost(PipeHost):
    """A host that signals the process that it started, and no other."""

    def send(self, number: int) -> None:
        os.kill(self.pid, number)


class TerminalHost:
    """A terminal, with the command in its foreground."""

    def __init__(self, command: list[str], env: dict[str, str] | None = None) -> None:
        self._terminal, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", IN_FOREGROUND, *command],
            stdin=theirs, stdout=theirs, stderr=theirs, env=HOME | (env or {}),
        )  # fmt: skip
        os.close(theirs)
        self.pid = self.process.pid
        self._until(b"ready\r\n")

    def send(self, number: int) -> None:
        if number in KEYS:
            os.write(self._terminal, KEYS[signal.Signals(number)])
        else:
            os.killpg(self.pid, number)

    def ask(self) -> Seen:
        os.write(self._terminal, b"?\n")
        return seen(b"<" + self._until(b">\r\n").rpartition(b"<")[2])

    def hang_up(self) -> None:
        os.close(self._terminal)
        self._terminal = -1

    def _until(self, words: bytes) -> bytes:
        got = b""
        while words not in got:
            assert select.select([self._terminal], [], [], DEADLINE_S)[0], got
            got += os.read(self._terminal, 4096)
        return got

    def close(self) -> None:
        self.process.kill()
        self.process.wait(DEADLINE_S)
        if self._terminal >= 0:
            self.hang_up()


HOSTS: Final[dict[str, Callable[[list[str]], PipeHost | TerminalHost]]] = {
    "group": PipeHost,
    "alone": LoneHost,
    "terminal": TerminalHost,
}


def counts(host: PipeHost | TerminalHost, numbers: list[int]) -> list[Seen]:
    """Send each of the signals, and ask what came of it before the next."""
    try:
        host.ask()  # the first answer may be there before the witness
        return [(host.send(number), host.ask())[1] for number in numbers]
    finally:
        host.close()


SDK_CLIENT: Final = """
import sys
import anyio
from mcp.client import stdio
stdio.PROCESS_TERMINATION_TIMEOUT = float(sys.argv[1])
async def main():
    parameters = stdio.StdioServerParameters(command=sys.argv[2], args=sys.argv[3:], env=None)
    async with stdio.stdio_client(parameters) as (received, _):
        await received.receive()
anyio.run(main)
"""
SDK_WAITS_S: Final = 0.3


def ended_by_the_sdk(wrapper: list[str]) -> bytes:
    """What a server that ignores the end of its input notes until the SDK kills it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "noted"
        path.touch()
        command = [*wrapper, *peer("notes", str(path))]
        subprocess.run(
            [sys.executable, "-c", SDK_CLIENT, str(SDK_WAITS_S), *command],
            env=HOME, timeout=DEADLINE_S, check=False, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        return path.read_bytes()


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.relay.signal_counts")
    parser.add_argument("--mcpproxy", default=str(Path(sys.executable).with_name("mcpproxy")))
    parser.add_argument("--sessions", type=int, default=200)
    options = parser.parse_args()
    numbers = [int(getattr(signal, name)) for name in NAMES]
    differing = 0
    with tempfile.TemporaryDirectory() as folder:
        HOME.pop("PYTHONPATH", None)  # so that an installed command is itself
        HOME["XDG_STATE_HOME"] = folder
        wrapper = [options.mcpproxy, "run", "--trace-dir", folder, "--quiet", "--"]
        _say(f"{'host':10}{'':11}{'times':>6}" + "".join(f"{name:>9}" for name in NAMES))
        for name, make in HOSTS.items():
            for kind, before in (("unwrapped", []), ("wrapped", wrapper)):
                table: collections.Counter[tuple[int, int]] = collections.Counter()
                for _ in range(options.sessions):
                    server = [answer[0] for answer in counts(make([*before, *peer("tally")]), numbers)]
                    table.update(
                        (number, got.count(number)) for number, got in zip(numbers, server, strict=True)
                    )
                for times in sorted({times for _, times in table}):
                    differing += sum(table[number, times] for number in numbers) if times != 1 else 0
                    row = "".join(f"{table[number, times]:9}" for number in numbers)
                    _say(f"{name:10}{kind:11}{times:6}{row}")
        for kind, before in (("unwrapped", []), ("wrapped", wrapper)):
            ends = collections.Counter(ended_by_the_sdk(before) for _ in range(options.sessions))
            differing += sum(ends.values()) - ends[bytes([signal.SIGTERM])]
            for noted, times in sorted(ends.items()):
                heard = " ".join(signal.Signals(number).name for number in noted) or "nothing"
                _say(f"{'SDK':10}{kind:11}{times:6} heard {heard}")
    _say(f"{differing} signals came another number of times than once")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
