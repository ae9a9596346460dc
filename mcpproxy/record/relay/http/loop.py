"""A level-triggered event loop over descriptors: epoll on Linux, the module selectors elsewhere.

A handler may be called although its descriptor is not ready any more, or for an event of another descriptor
that had the same number and was closed earlier in the same turn. So a handler must expect that a read or
write would block.

A callback (a handler, the work of a timer) raises only if mcpproxy has a bug. ``on_fault`` is then called
with the callback and the exception, and the loop continues with the other callbacks."""

from __future__ import annotations

import heapq
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    Handler = Callable[[int], None]
    OnFault = Callable[[Callable[..., None], Exception], None]

READ: Final = 1
WRITE: Final = 4
BROKEN: Final = 8 | 16
"""Error or hang-up, which epoll reports for every watched descriptor. The values are those of epoll."""

_EVENTS_PER_TURN: Final = 256
"""How many ready descriptors are handled in one turn."""


class Loop:
    """Calls the handler of each ready descriptor with its events.

    A descriptor may be watched for no events (0). Then its handler is called only on a broken connection, and
    without epoll never."""

    def __init__(self, on_fault: OnFault) -> None:
        self._on_fault = on_fault
        self._handlers: dict[int, Handler] = {}
        self._epoll = make_epoll()

    def watch(self, fd: int, events: int, handler: Handler) -> None:
        """Begin to watch ``fd``, which is not watched yet.

        Raises:
            OSError: the system allows no more watched descriptors.
        """
        self._epoll.register(fd, events)
        self._handlers[fd] = handler

    def change(self, fd: int, events: int) -> None:
        """Watch ``fd`` for other events from now on."""
        self._epoll.modify(fd, events)

    def forget(self, fd: int) -> None:
        """Stop watching ``fd``, which must still be open."""
        del self._handlers[fd]
        self._epoll.unregister(fd)

    @property
    def watched(self) -> int:
        """How many descriptors are watched, for events or for none."""
        return len(self._handlers)

    def turn(self, timeout_s: float | None) -> None:
        """Wait until a descriptor is ready, at most ``timeout_s`` seconds (``None``: without limit). Call the
        handlers of those that are ready."""
        handlers = self._handlers
        for fd, events in self._epoll.poll(timeout_s, _EVENTS_PER_TURN):
            handler = handlers.get(fd)
            if handler is not None:  # an earlier handler of this turn may have closed the descriptor
                try:
                    handler(events)
                except Exception as fault:
                    self._on_fault(handler, fault)


class SelectorEpoll:
    """The methods of ``select.epoll`` that the loop calls, for systems without epoll."""

    def __init__(self) -> None:
        import selectors

        self._selector = selectors.DefaultSelector()

    def register(self, fd: int, events: int) -> None:
        if events:
            self._selector.register(fd, _TO_SELECTORS[events])

    def modify(self, fd: int, events: int) -> None:
        self.unregister(fd)
        self.register(fd, events)

    def unregister(self, fd: int) -> None:
        if fd in self._selector.get_map():  # otherwise it is watched for no events
            self._selector.unregister(fd)

    def poll(self, timeout_s: float | None, most: int) -> list[tuple[int, int]]:
        ready = self._selector.select(timeout_s)[:most]
        return [(key.fd, _FROM_SELECTORS[events]) for key, events in ready]


# The values of the module selectors: EVENT_READ is 1, EVENT_WRITE is 2.
_TO_SELECTORS: Final = {READ: 1, WRITE: 2, READ | WRITE: 3}
_FROM_SELECTORS: Final = {1: READ, 2: WRITE, 3: READ | WRITE}


def make_epoll() -> select.epoll | SelectorEpoll:
    """Return epoll, or its substitute if the system has no epoll."""
    return select.epoll() if hasattr(select, "epoll") else SelectorEpoll()


class Timer:
    """A function ``work`` to be called at ``due_s`` (of ``time.monotonic``), unless the timer is stopped."""

    __slots__ = ("due_s", "work")

    def __init__(self, due_s: float, work: Callable[[], None]) -> None:
        self.due_s = due_s
        self.work: Callable[[], None] | None = work

    def stop(self) -> None:
        self.work = None

    def __lt__(self, other: Timer) -> bool:
        return self.due_s < other.due_s


class Timers:
    """All timers of the loop, as a heap."""

    def __init__(self, on_fault: OnFault) -> None:
        self._on_fault = on_fault
        self._timers: list[Timer] = []

    def start(self, after_s: float, work: Callable[[], None]) -> Timer:
        """Call ``work`` in ``after_s`` seconds."""
        timer = Timer(time.monotonic() + after_s, work)
        heapq.heappush(self._timers, timer)
        return timer

    def run(self) -> float | None:
        """Call the functions that are due. Return the seconds until the next timer; ``None`` without one."""
        timers = self._timers
        while timers:
            if timers[0].work is not None:
                left_s = timers[0].due_s - time.monotonic()
                if left_s > 0:
                    return left_s
            work = heapq.heappop(timers).work
            if work is not None:
                try:
                    work()
                except Exception as fault:
                    self._on_fault(work, fault)
        return None
