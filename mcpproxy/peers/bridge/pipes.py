"""Read lines from a pipe and write lines to one, in an event loop.

Both pipes must belong to this process alone, because they become non-blocking.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from typing import IO, Final

from mcpproxy.peers.replay.whole_lines import WholeLines

_CHUNK_BYTES: Final = 64 << 10


async def lines_from(pipe: IO[bytes]) -> AsyncIterator[bytes]:
    """Yield the lines of ``pipe`` without their line feeds; those too long for ``WholeLines`` are left out.

    The next chunk is read when all lines of the last one were taken. The last line needs no line feed.
    """
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(_CHUNK_BYTES)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    lines = WholeLines()
    try:
        while chunk := await reader.read(_CHUNK_BYTES):
            for line in lines.feed(chunk):
                yield line
    finally:
        transport.close()
    for line in lines.end():
        yield line


class LineWriter(asyncio.BaseProtocol):
    """Writes lines to a pipe. ``closed`` is set when its reader has closed it, or after ``close``."""

    def __init__(self) -> None:
        self.closed: Final = asyncio.Event()
        self._has_room: Final = asyncio.Event()
        self._has_room.set()
        self._transport: asyncio.WriteTransport | None = None

    @classmethod
    async def open(cls, pipe: IO[bytes]) -> "LineWriter":
        """Return a writer for ``pipe``."""
        os.set_blocking(pipe.fileno(), False)
        _, writer = await asyncio.get_running_loop().connect_write_pipe(cls, pipe)
        return writer

    async def write(self, line: bytes) -> None:
        """Write a line, and wait while the pipe is full; do nothing if the reader has closed the pipe."""
        if self._transport is not None and not self.closed.is_set():
            self._transport.write(line + b"\n")
            await self._has_room.wait()

    def close(self) -> None:
        """Close the pipe when all lines are written."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.closed.set()
        self._has_room.set()

    def pause_writing(self) -> None:
        self._has_room.clear()

    def resume_writing(self) -> None:
        self._has_room.set()
