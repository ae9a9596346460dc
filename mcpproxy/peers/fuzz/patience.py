"""Wait for a server: as long as it writes something, it does not hang.

A server that logs a million lines has to wait until they are recorded, and then answers a ping late, which is
not its fault. So the time limit for an answer starts again with each output of the server, within a bound: a
server that writes forever and answers nothing hangs, too.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar

from mcpproxy.judge.session.frame import SERVER, Frame, ResponseHead, Stderr
from mcpproxy.record.trace.records import Recorded

MOST_TIMES: Final = 6
"""The bound for a server that keeps writing, in multiples of the time limit for a silent one."""

T = TypeVar("T")


class RecordSource(Protocol):
    """Calls its listeners with each record, as ``SessionRecording`` does."""

    def add_listener(self, listener: Callable[[Recorded], None]) -> None:
        """Call ``listener`` with each record from now on."""
        ...


class Patience:
    """Waits for a server whose output is recorded in ``recording``."""

    def __init__(self, recording: RecordSource) -> None:
        self._records = 0
        recording.add_listener(self._on_record)

    async def wait(self, work: Coroutine[Any, Any, T], silence_s: float) -> T:
        """Return the result of ``work``.

        Raises:
            TimeoutError: the server wrote nothing for ``silence_s`` seconds, or ``MOST_TIMES`` times that
                passed in all. ``work`` is then cancelled.
        """
        task = asyncio.create_task(work)
        try:
            for _ in range(MOST_TIMES):
                before = self._records
                await asyncio.wait([task], timeout=silence_s)
                if task.done():
                    return task.result()
                if self._records == before:
                    break
            raise TimeoutError
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _on_record(self, event: Recorded) -> None:
        is_of_server = isinstance(event, Frame) and event.sender == SERVER
        if is_of_server or isinstance(event, Stderr | ResponseHead):
            self._records += 1
