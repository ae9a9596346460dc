"""A link to a live server on stdio: a child process."""

import asyncio
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from mcpproxy.base.system_words import end_text
from mcpproxy.peers.client.child_process import GRACE_S, ChildProcess
from mcpproxy.peers.replay.client.driver import LinkEvent, ServerFrame, ServerGone
from mcpproxy.peers.replay.client.player import Send
from mcpproxy.peers.replay.whole_lines import WholeLines

_CHUNK_BYTES: Final = 1 << 16
_MAX_UNREAD: Final = 1000
"""How many events may wait in the queue. If the queue is full, no more is read from the server."""
_SHORT_GRACE_S: Final = 0.2
"""How long the process may take to exit by itself if the player stopped before the end of its script."""


class StdioLink:
    """Runs ``command``, which inherits our stderr. ``exit_code`` is set when the process has ended."""

    def __init__(self, command: Sequence[str]) -> None:
        self.events: asyncio.Queue[LinkEvent] = asyncio.Queue(_MAX_UNREAD)
        self.exit_code: int | None = None
        self._command: Final = command
        self._lines: Final[asyncio.Queue[bytes | None]] = asyncio.Queue()  # ``None``: close stdin
        self._process: ChildProcess | None = None
        self._tasks: Final[list[asyncio.Task[None]]] = []
        self._grace_s = _SHORT_GRACE_S

    async def open(self) -> None:
        """Start the command.

        Raises:
            McpProxyError: the command cannot be started.
        """
        self._process = await ChildProcess.start(self._command)
        self._tasks.append(asyncio.create_task(self._read_messages(self._process)))
        self._tasks.append(asyncio.create_task(self._write_lines(self._process)))

    async def send(self, send: Send) -> None:
        """Queue one line; a server that does not read its stdin does not block us."""
        if send.raw:  # an HTTP exchange without a message has no counterpart on stdio
            await self._lines.put(send.raw + b"\n")

    async def end_input(self) -> None:
        """Close stdin of the process when all lines are written, and allow it more time to exit by itself."""
        self._grace_s = GRACE_S
        await self._lines.put(None)

    async def close(self) -> None:
        """Wait briefly for the process to exit, then end it and every process that it started."""
        process = self._process
        if process is None:
            return
        try:
            await self._lines.put(None)
            if not await process.wait_for_exit(self._grace_s):
                process.signal_all(signal.SIGTERM)
                await process.wait_for_exit(self._grace_s)
        finally:
            self.exit_code = await process.end(self._tasks)

    async def _read_messages(self, process: ChildProcess) -> None:
        lines = WholeLines()
        while chunk := await process.stdout.read(_CHUNK_BYTES):
            for line in lines.feed(chunk):
                await self.events.put(ServerFrame(line))
        for line in lines.end():
            await self.events.put(ServerFrame(line))
        await process.wait_for_exit(GRACE_S)
        await self.events.put(ServerGone(f"the server {end_text(process.exit_code)}"))

    async def _write_lines(self, process: ChildProcess) -> None:
        with suppress(ConnectionError):
            while (line := await self._lines.get()) is not None:
                process.stdin.write(line)
                await process.stdin.drain()
        process.stdin.close()
