"""Tasks that run beside their owner, and end with it."""

import asyncio
from collections.abc import Coroutine
from typing import Final


class BackgroundTasks:
    """Tasks that are cancelled together. A task that has ended is forgotten."""

    def __init__(self) -> None:
        self._tasks: Final[set[asyncio.Task[None]]] = set()

    def start(self, coroutine: Coroutine[None, None, None]) -> "asyncio.Task[None]":
        """Run ``coroutine`` as one of these tasks; return the task, which need not be kept."""
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def cancel(self) -> None:
        """As ``cancel_tasks``, for all tasks that have not ended."""
        await cancel_tasks(*self._tasks)


async def cancel_tasks(*tasks: "asyncio.Task[None]") -> None:
    """Cancel tasks, and wait until they have ended. What they raise is ignored."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
