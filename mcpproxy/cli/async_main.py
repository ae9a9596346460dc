"""Run a coroutine from a command; SIGTERM cancels it, as Ctrl-C does."""

import asyncio
import signal
from collections.abc import Coroutine
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


def run_until_terminated(coroutine: Coroutine[None, None, T]) -> T:
    """Run ``coroutine`` and return its result.

    Raises:
        KeyboardInterrupt: SIGINT or SIGTERM was received. The coroutine was cancelled and has ended.
    """

    async def main() -> T:
        task = asyncio.current_task()
        assert task is not None
        with suppress(NotImplementedError, ValueError, RuntimeError):  # on Windows and in threads
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await coroutine

    try:
        return asyncio.run(main())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
