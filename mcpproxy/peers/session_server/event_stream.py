"""A stream of Server-Sent Events that outlives its connections, and an event as bytes."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from mcpproxy.errors import McpProxyError


class GoneEventsError(McpProxyError):
    """The events after the ``Last-Event-ID`` are not kept any more, or never existed."""


@dataclass(frozen=True)
class ConnectionLimit:
    """When a connection of a stream has to end, in seconds of the event loop's clock, and its ``retry``.

    ``retry_s`` is how many seconds the client shall wait before it connects again.
    """

    ends_at: float
    retry_s: float


class EventStream:
    """The events of a stream, numbered from 1, read by one connection at a time.

    A new connection continues after the last event that was taken, or after the event that ``rewind`` names.
    """

    def __init__(self) -> None:
        self.is_over = False
        self._events: Final[deque[bytes | None]] = deque()  # ``None``: a connection ends here, not the stream
        self._first: int = 1  # the number of the first event that is kept
        self._next: int = 1  # the number of the next event to send
        self._last_reader = 0  # the number of the newest connection
        self._changed = asyncio.Event()

    @property
    def has_unsent(self) -> bool:
        """Whether there are events that no connection has taken since the last ``rewind``."""
        return self._next < self._first + len(self._events)

    @property
    def is_done(self) -> bool:
        """Whether all events were given to a connection, and no more will come."""
        return self.is_over and not self.has_unsent

    def add(self, event: bytes) -> int:
        """Add an event, and return its number."""
        return self._append(event)

    def pause(self) -> None:
        """End the connection after the events so far. The stream continues on the next connection."""
        self._append(None)

    def end(self) -> None:
        """End the stream: no more events will come."""
        self.is_over = True
        self._notify()

    def rewind(self, number: int) -> None:
        """Let the next connection begin after the event ``number``, and after a ``pause`` that follows it.

        An older connection gets no more.

        Raises:
            GoneEventsError: this event does not exist, or events after it are no longer kept.
        """
        if not self._first - 1 <= number < self._first + len(self._events):
            raise GoneEventsError(f"the events after number {number} of the stream are not kept")
        self._last_reader += 1
        self._notify()
        self._next = number + 1
        if self.has_unsent and self._events[self._next - self._first] is None:
            self._next += 1

    async def read(self, limit: ConnectionLimit | None = None) -> AsyncGenerator[bytes]:
        """Yield the events for a new connection, and end the older connection.

        With a ``limit``, the first event has a ``retry`` field, and after at least one event the connection
        ends at the limit, unless the stream is over: then all its events are yielded.
        """
        loop = asyncio.get_running_loop()
        self._last_reader += 1
        reader = self._last_reader
        self._on_connected(limit)
        self._notify()
        prefix = b"" if limit is None else b"retry: %d\n" % round(limit.retry_s * 1000)
        try:
            while reader == self._last_reader:
                if limit is not None and not (prefix or self.is_over) and loop.time() >= limit.ends_at:
                    self._on_limit(limit)
                    return
                if self.has_unsent:
                    event = self._take_event()
                    if event is None:
                        return
                    yield prefix + event
                    prefix = b""
                elif self.is_over:
                    return
                else:
                    with suppress(TimeoutError):
                        async with asyncio.timeout_at(None if prefix or limit is None else limit.ends_at):
                            await self._changed.wait()
        finally:
            if reader == self._last_reader:
                self._on_disconnected()

    def _append(self, event: bytes | None) -> int:
        self._events.append(event)
        self._notify()
        return self._first + len(self._events) - 1

    def _take_event(self) -> bytes | None:
        event = self._events[self._next - self._first]
        self._next += 1
        return event

    def _notify(self) -> None:
        """Wake the waiting readers."""
        self._changed.set()  # later waits use a new event, which is not set
        self._changed = asyncio.Event()

    def _on_connected(self, limit: ConnectionLimit | None) -> None:
        """Take note that a connection begins to read; for subclasses."""

    def _on_limit(self, limit: ConnectionLimit) -> None:
        """Take note that the connection ends at its limit; for subclasses."""

    def _on_disconnected(self) -> None:
        """Take note that the connection has ended, and no newer one reads; for subclasses."""


def event_bytes(data: bytes, fields: bytes = b"event: message\n") -> bytes:
    """Return an event with ``data`` and, before it, the lines of its other fields."""
    if b"\n" in data or b"\r" in data:
        data = b"\ndata: ".join(data.splitlines())
    return b"%bdata: %b\n\n" % (fields, data)
