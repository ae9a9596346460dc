"""A process of mcpproxy that works beside a recording."""

import subprocess
import threading
from collections.abc import Callable
from typing import Final

from mcpproxy.base.own_process import own_command


class Companion:
    """Starts a process that runs ``module`` of mcpproxy with ``arguments``.

    Each line of its stdout is passed to ``take_line``, with any line end, on a thread of its own. The process
    does not inherit stderr, because it may outlive the session and would keep stderr open. Its stdin ends
    with the recorder, the process that makes the companion, however the recorder ends.

    Raises:
        OSError: the process cannot be started.
        RuntimeError: the system allows no further thread.
    """

    def __init__(self, take_line: Callable[[bytes], object], module: str, *arguments: str) -> None:
        self._take_line: Final = take_line
        self.process: Final = subprocess.Popen(
            own_command(module, *arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        threading.Thread(target=self._read_lines, daemon=True).start()

    def finish(self) -> None:
        """Tell the process, by closing its stdin, that the recording is finished. Do not wait for its end."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def _read_lines(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self._take_line(line)
