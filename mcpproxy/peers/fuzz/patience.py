"""How long to wait for a server: as long as it writes something, it does not hang.

A server that logs a million lines has to wait until they are recorded, and then answers a ping late. That is
not its fault. So the time for an answer counts from the last thing that it wrote, within a bound: a server
that writes for ever and answers nothing hangs, too.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar

from mcpproxy.judge.session.frame import SERVER, Frame, ResponseHead, Stderr
from mcpproxy.record.trace.records import Recorded

MOST_TIMES: Final = 6
"""The bound for a server that goes on writing, in multiples of the time for a silent one."""

T = TypeVar("T")


class RecordSource(Protocol):
    """Calls its listeners with each record, as `SessionRecording` does."""

    def add_listener(self, listener: Callable[[Recorded], None]) -> None: ...


class Patience:
    """Waits for a server whose output is recorded in ``recording``."""

    def __init__(self, recording: RecordSource) -> None:
        self._records = 0
        recording.add_listener(self._on_record)

    async def wait(self, work: Coroutine[Any, Any, T], silence_s: float) -> T:
        """Return what ``work`` returns.

        Raises:
            TimeoutError: the server wrote nothing for ``silence_s`` seconds, or ``MOST_TIMES`` that time
                passed. ``work`` is cancelled then.
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
