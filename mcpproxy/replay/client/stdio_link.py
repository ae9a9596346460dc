"""A link to a live server on stdio: a child process in a process group of its own."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from mcpproxy.base.start_failure import start_failure
from mcpproxy.base.subprocess_pipes import stdin_closed
from mcpproxy.errors import McpProxyError
from mcpproxy.replay.client.driver import LinkEvent, ServerFrame, ServerGone
from mcpproxy.replay.client.player import Send
from mcpproxy.replay.whole_lines import WholeLines

_CHUNK_BYTES: Final = 1 << 16
_MAX_UNREAD: Final = 1000
"""How many events may wait in the queue. If the queue is full, no more is read from the server."""
_GRACE_S: Final = 2.0
"""How long the process may take to exit by itself."""
_SHORT_GRACE_S: Final = 0.2
"""How long the process may take to exit by itself if the replay stopped before the end of the script."""


class StdioLink:
    """Runs ``command``, which inherits our stderr. ``exit_code`` is set when the process has ended."""

    def __init__(self, command: Sequence[str]) -> None:
        self.events: asyncio.Queue[LinkEvent] = asyncio.Queue(_MAX_UNREAD)
        self.exit_code: int | None = None
        self._command: Final = command
        self._lines: Final[asyncio.Queue[bytes | None]] = asyncio.Queue()  # ``None``: close stdin
        self._process: Process | None = None
        self._tasks: Final[list[asyncio.Task[None]]] = []
        self._grace_s = _SHORT_GRACE_S

    async def open(self) -> None:
        """Start the command.

        Raises:
            McpProxyError: the command cannot be started.
        """
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdin=PIPE, stdout=PIPE, start_new_session=True
            )
        except (OSError, ValueError) as fault:
            raise McpProxyError(start_failure(self._command[0], fault)[0]) from None
        self._tasks.append(asyncio.create_task(self._read(self._process)))
        self._tasks.append(asyncio.create_task(self._write(self._process)))

    async def send(self, send: Send) -> None:
        """Queue one line; a server that does not read its stdin does not block us."""
        if send.raw:  # an HTTP exchange without a message has no counterpart on stdio
            await self._lines.put(send.raw + b"\n")

    async def end_input(self) -> None:
        """Close stdin of the process when all lines are written, and allow it more time to exit by itself."""
        self._grace_s = _GRACE_S
        await self._lines.put(None)

    async def close(self) -> None:
        """Wait briefly for the process to exit, then end it and every process that it started."""
        process = self._process
        if process is None:
            return
        try:
            await self._lines.put(None)
            await _wait_for_exit(process, self._grace_s)
            if process.returncode is None:
                _signal(process, signal.SIGTERM)
                await _wait_for_exit(process, self._grace_s)
        finally:
            _signal(process, signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            # A process that the server started may keep stdout open; asyncio has no public way to close the
            # pipe.
            process._transport.close()  # pyright: ignore
            await asyncio.wait((asyncio.create_task(stdin_closed(process.stdin)),), timeout=_SHORT_GRACE_S)
            self.exit_code = await process.wait()

    async def _read(self, process: Process) -> None:
        assert process.stdout is not None
        lines = WholeLines()
        while chunk := await process.stdout.read(_CHUNK_BYTES):
            for line in lines.feed(chunk):
                await self.events.put(ServerFrame(line))
        for line in lines.end():
            await self.events.put(ServerFrame(line))
        await _wait_for_exit(process, _GRACE_S)
        code = process.returncode
        if code is None:
            how = "closed its stdout"
        else:
            how = f"ended (exit code {code})" if code >= 0 else f"was ended by signal {-code}"
        await self.events.put(ServerGone(f"the server {how}"))

    async def _write(self, process: Process) -> None:
        assert process.stdin is not None
        with suppress(ConnectionError):
            while (line := await self._lines.get()) is not None:
                process.stdin.write(line)
                await process.stdin.drain()
        process.stdin.close()


async def _wait_for_exit(process: Process, limit_s: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            await process.wait()


def _signal(process: Process, number: int) -> None:
    """Send a signal to the process, and to the processes that it started (on Windows not to these)."""
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.send_signal(number)
        else:
            os.killpg(process.pid, number)
