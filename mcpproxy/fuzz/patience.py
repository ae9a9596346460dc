"""How long a server is waited for: as long as it says something, a server has not stopped.

What a server writes is recorded while it writes it. A server that logs a million lines is held up by that,
and then answers a ping late because of us. So the time for an answer counts from the last thing that the
server said, within a bound: one that talks for ever and answers nothing hangs, too.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar

from mcpproxy.session.frame import SERVER, Frame, ResponseHead, Stderr
from mcpproxy.trace.records import Recorded

MOST_TIMES: Final = 6
"""How many times as long a server is waited for that goes on to say something."""

T = TypeVar("T")


class Listened(Protocol):
    """What tells of each record: a `SessionRecording`."""

    def add_listener(self, listener: Callable[[Recorded], None]) -> None: ...


class Patience:
    """Waits for what a server does, of which everything is recorded."""

    def __init__(self, recording: Listened) -> None:
        self._said = 0
        recording.add_listener(self._on_record)

    async def wait(self, work: Coroutine[Any, Any, T], silence_s: float) -> T:
        """Return what ``work`` returns.

        Raises:
            TimeoutError: it was not done, and the server said nothing for ``silence_s``, or all of
                ``MOST_TIMES`` as long was over. ``work`` is cancelled then.
        """
        task = asyncio.create_task(work)
        try:
            for _ in range(MOST_TIMES):
                before = self._said
                await asyncio.wait([task], timeout=silence_s)
                if task.done():
                    return task.result()
                if self._said == before:
                    break
            raise TimeoutError
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _on_record(self, event: Recorded) -> None:
        is_of_server = isinstance(event, Frame) and event.sender == SERVER
        if is_of_server or isinstance(event, Stderr | ResponseHead):
            self._said += 1
