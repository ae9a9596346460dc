"""A recording of 100,000 calls in the terminal view: its first rows, and how long a key takes.

The command runs in a terminal of its own. A key counts from the byte that is written until the screen shows
what it was pressed for, as a user would see it.
"""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from mcpproxy.base.ready import is_readable
from mcpproxy.read.view.view import open_view
from tests.benchmarks import processes
from tests.benchmarks.options import Options
from tests.benchmarks.report import Samples, Section
from tests.benchmarks.sessions import ROOT, WrongBytesError
from tests.benchmarks.view import TOOLS, write

CALLS: Final = 100_000
SHORT_CALLS: Final = 2_000
ROWS: Final = 50
COLUMNS: Final = 160
KEYS: Final = 20
TIMEOUT_S: Final = 60
VARIANT: Final = "mcpproxy"
_ESCAPE: Final = re.compile(rb"\x1b(?:\[[0-9;?<>=]*[a-zA-Z]|[()][A-Z0-9]|[=>])")


class Terminal:
    """A command in a terminal, and what it has written there since it was last asked for something."""

    def __init__(self, command: list[str], environment: Mapping[str, str]) -> None:
        self._fd, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.process: Final = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True
        )
        os.close(theirs)
        self._output = b""

    def _read(self) -> bytes:
        output = os.read(self._fd, 1 << 16)
        self._output += output
        return output

    def has_shown(self, text: bytes) -> bool:
        """Whether the screen was ever given ``text``."""
        return text in _ESCAPE.sub(b"", self._output)

    def shows(self, text: bytes) -> float:
        """Wait until the screen was given ``text``, and return the time of that."""
        seen, end = b"", time.perf_counter() + TIMEOUT_S
        while text not in _ESCAPE.sub(b"", seen):
            if not is_readable(self._fd, max(end - time.perf_counter(), 0)):
                raise WrongBytesError(f"tui: {text!r} is not shown; the last was {seen[-300:]!r}")
            seen += self._read()
        return time.perf_counter()

    def pressed(self, keys: bytes, text: bytes) -> float:
        """Press keys and return how many milliseconds it takes until ``text`` is shown."""
        while is_readable(self._fd, 0.1):  # what the key before has brought
            self._read()
        began = time.perf_counter()
        os.write(self._fd, keys)
        return (self.shows(text) - began) * 1e3

    def used_ms(self) -> float:
        """Return the processor time of the command until now."""
        return processes.cpu_seconds(self.process.pid) * 1e3

    def end(self) -> None:
        """Quit."""
        os.write(self._fd, b"q")
        while is_readable(self._fd, TIMEOUT_S):
            try:
                if not os.read(self._fd, 1 << 16):
                    break
            except OSError:  # so Linux says that the other side is closed
                break
        os.close(self._fd)
        self.process.wait(TIMEOUT_S)


def run(options: Options) -> list[Section]:
    """Measure each round in processes of its own."""
    calls = options.size(CALLS, SHORT_CALLS)
    samples = Samples()
    with tempfile.TemporaryDirectory(prefix="mcpproxy-tui-") as folder:
        path = Path(folder) / "calls.jsonl"
        write(path, calls)
        samples.notes.append(f"{calls:,} calls, {path.stat().st_size / 1e6:,.0f} MB, {COLUMNS} x {ROWS}.")
        for number in range(options.rounds):
            os.environ["XDG_CACHE_HOME"] = os.path.join(folder, f"cache{number}")
            for row, value in measure(str(path), calls).items():
                samples.add(row, VARIANT, value)
    return [Section("terminal view", samples, (VARIANT,))]


def measure(path: str, calls: int) -> dict[str, float]:
    """Measure one run of the command on ``path``, of which no index is kept yet."""
    found: dict[str, float] = {}
    command = [sys.executable, "-m", "mcpproxy", "tui", path]
    environment = {**os.environ, "TERM": "xterm-256color"}
    began = time.perf_counter()
    unread = Terminal(command, {**environment, "XDG_CACHE_HOME": os.environ["XDG_CACHE_HOME"] + "-other"})
    found["start of the command until the first rows, ms"] = (unread.shows(b"item 3 of") - began) * 1e3
    whole = f" {calls:,} calls".encode()  # in the line at the top, when all is read
    reading: list[float] = []
    while not unread.has_shown(whole):
        reading.append(unread.pressed(b"j", b"search%d" % ((len(reading) + 1) % TOOLS)))
    found["keys until all is read"] = len(reading)
    if reading:  # a short recording may be read before the first key
        found["j while the rest is read, p50, ms"] = sorted(reading)[len(reading) // 2]
        found["j while the rest is read, the longest, ms"] = max(reading)
    unread.end()

    began = time.perf_counter()
    with open_view(path) as view:
        if view.count() != calls:
            raise WrongBytesError(f"the view says {view.count()}, and it is {calls}")
    found["of that the index, which is kept, ms"] = (time.perf_counter() - began) * 1e3

    began = time.perf_counter()
    terminal = Terminal(command, environment)
    found["the same with the index that was kept, ms"] = (terminal.shows(b"item 3 of") - began) * 1e3
    used_ms = found["of processor time until the first rows, ms"] = terminal.used_ms()
    steps = [terminal.pressed(b"j", b"search%d" % (number % TOOLS)) for number in range(1, KEYS + 1)]
    found["j, processor time of a key, ms"] = (terminal.used_ms() - used_ms) / KEYS
    found["j, p50, ms"] = sorted(steps)[KEYS // 2]
    found["j, the longest, ms"] = max(steps)
    ends = [
        terminal.pressed(key, text)
        for key, text in ((b"G", b"item %d of" % (calls - 1)), (b"g", b"item 0 of")) * 5
    ]
    found["G and g, the longest, ms"] = max(ends)
    terminal.pressed(b"/", b"tool:search")
    found["filter by tool, ms"] = terminal.pressed(b"tool:search7\r", b" of %s" % f"{calls:,}".encode())
    terminal.end()
    return found
