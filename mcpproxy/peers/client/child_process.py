"""Starts and ends a process for us: a stdio server for a client of ours, or a client under test.

Here the process is called the server in both cases. It runs in a process group of its own, so that every
process that it starts can be ended with it, and a Ctrl-C in the terminal reaches only us.
"""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from mcpproxy.base.system_words import start_failure
from mcpproxy.errors import McpProxyError

GRACE_S: Final = 2.0
"""How long a server may take to exit after its stdin was closed, and again after SIGTERM."""

_LAST_OUTPUT_S: Final = 0.5
"""How long to wait for the last output, and for stdin to close, after the server was killed."""

_POLL_S: Final = 0.01

KILL: Final[int] = signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL
"""The signal that ends a process at once. On Windows, which has no SIGKILL, SIGTERM does."""


class ChildProcess:
    """The process of a server, with pipes at its ``stdin`` and ``stdout``.

    ``stderr`` is ``None`` unless it is a pipe, too.
    """

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process: Final = process
        self.pid: Final = process.pid
        self.stdin: Final = process.stdin
        self.stdout: Final = process.stdout
        self.stderr: Final = process.stderr

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        has_stderr: bool = False,
    ) -> "ChildProcess":
        """Start ``command`` with ``env`` added to our environment, in the folder ``cwd`` (empty: ours).

        Its stderr is a pipe if ``has_stderr``, else ours.

        Raises:
            McpProxyError: the command cannot be started.
        """
        try:
            return cls(
                await asyncio.create_subprocess_exec(
                    *command,
                    stdin=PIPE,
                    stdout=PIPE,
                    stderr=PIPE if has_stderr else None,
                    env={**os.environ, **(env or {})},
                    cwd=cwd or None,
                    start_new_session=True,
                )
            )
        except (OSError, ValueError) as fault:
            raise McpProxyError(start_failure(command[0], fault)) from None

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; ``None`` while the process runs."""
        return self._process.returncode

    async def wait_for_exit(self, limit_s: float) -> bool:
        """Wait for the process to exit; return whether it has exited within ``limit_s`` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._wait_for_code()
        return self._process.returncode is not None

    async def _wait_for_code(self) -> int:
        """Wait for the process to exit, and return its code.

        ``Process.wait`` also waits for the pipes, in some versions of Python, and a process that the server
        started may keep them open.
        """
        while (code := self._process.returncode) is None:
            await asyncio.sleep(_POLL_S)
        return code

    def signal(self, number: int) -> None:
        """Send a signal to the process alone, if it still runs.

        ``Process.send_signal`` may take the exit code away from asyncio, which then reports 255.
        """
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill_all(self) -> None:
        """Kill all processes in its group that still run (on Windows the process alone)."""
        self.signal_all(KILL)

    def signal_all(self, number: int) -> None:
        """Send a signal to all processes in its group (on Windows to the process alone)."""
        if sys.platform == "win32":
            with suppress(ProcessLookupError, PermissionError):
                self._process.send_signal(number)
        else:
            signal_group(self.pid, number)

    async def end(self, users: "Sequence[asyncio.Task[None]]") -> int:
        """Kill the group, wait for the last output, and close the pipes. Return the exit code.

        ``users`` are the tasks that read and write the pipes. The wait for them is limited, because a process
        that the server started may have left the group and keep stdout open.
        """
        self.kill_all()
        code = await self._wait_for_code()
        if users:
            await asyncio.wait(users, timeout=_LAST_OUTPUT_S)
        for task in users:
            task.cancel()
        await asyncio.gather(*users, return_exceptions=True)
        self._process._transport.close()  # pyright: ignore # asyncio has no public way to close a pipe
        closing = asyncio.create_task(self._wait_until_stdin_closed())
        await asyncio.wait((closing,), timeout=_LAST_OUTPUT_S)
        if not closing.done():  # such a process keeps stdin open, too, with unread input
            self.stdin.transport.abort()
            await closing
        return code

    async def _wait_until_stdin_closed(self) -> None:
        """Wait until stdin is closed.

        Without this wait, Python 3.11 can print a traceback if the process has not read all of its input.
        """
        with suppress(OSError):
            await self.stdin.wait_closed()


def signal_group(pid: int, number: int) -> None:
    """Send a signal to a process group, if it still runs; ``pid`` is the id of its first process."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
