"""What runs asynchronously, from a command: a request to terminate ends it in order, like an interrupt."""

import asyncio
import signal
from collections.abc import Coroutine
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


def run_until_terminated(coroutine: Coroutine[None, None, T]) -> T:
    """Run it and give what it gives.

    Raises:
        KeyboardInterrupt: SIGINT or SIGTERM came, and it has put its things away.
    """

    async def main() -> T:
        task = asyncio.current_task()
        assert task is not None
        with suppress(NotImplementedError, ValueError, RuntimeError):  # Windows, and threads
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await coroutine

    try:
        return asyncio.run(main())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
