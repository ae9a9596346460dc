"""The pipes of a process that asyncio has started."""

import asyncio
from contextlib import suppress


async def stdin_closed(stdin: asyncio.StreamWriter | None) -> None:
    """Wait until stdin of a process is closed.

    Without this wait, Python 3.11 can print a traceback if the process has not read all of its input.
    """
    if stdin is not None:
        with suppress(OSError):
            await stdin.wait_closed()
