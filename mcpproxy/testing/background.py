"""A server process that runs in the background of a test."""

import re
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import Final

from mcpproxy.errors import McpProxyError

_START_S: Final = 30.0
"""How long a command may take to print its address."""
_END_S: Final = 10.0
"""How long a command may take to exit after SIGTERM."""


class Background:
    """A running command that prints its address on stderr; ``lines`` are the lines of its stderr so far.

    Raises:
        OSError: the command cannot be started.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self.lines: Final[list[str]] = []
        self._stderr_changed: Final = threading.Condition()
        """Notified of each new line on stderr, and of its end."""
        self._is_at_end = False
        self._process: Final = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        )
        self._reader: Final = threading.Thread(target=self._read_stderr, name="mcpproxy stderr", daemon=True)
        self._reader.start()

    def wait_for(self, pattern: str) -> str:
        """Return the first group of the first line that matches ``pattern``.

        Raises:
            McpProxyError: the command ends first, or prints no such line within ``_START_S`` and is ended.
                The text is the last line that it printed.
        """
        deadline = time.monotonic() + _START_S
        searched = 0
        with self._stderr_changed:
            while True:
                for line in self.lines[searched:]:
                    if match := re.search(pattern, line):
                        return match[1]
                searched = len(self.lines)
                if self._is_at_end or not self._stderr_changed.wait(deadline - time.monotonic()):
                    break
        last_line = self.lines[-1].removeprefix("mcpproxy: ") if self.lines else "the server said nothing"
        self.end()
        raise McpProxyError(last_line)

    def end(self) -> None:
        """End the command and wait until it has exited."""
        self._process.terminate()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(_END_S)

    def _read_stderr(self) -> None:
        """Read the lines of stderr until its end. This runs in a thread."""
        assert self._process.stderr is not None
        with self._process.stderr as stderr:
            for line in stderr:
                with self._stderr_changed:
                    self.lines.append(line.rstrip("\n"))
                    self._stderr_changed.notify_all()
        with self._stderr_changed:
            self._is_at_end = True
            self._stderr_changed.notify_all()
