"""A stream of Server-Sent Events that a client can resume, and the conversion of messages to events."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from mcpproxy.replay.server.live_messages import OutgoingMessage
from mcpproxy.session.frame import SseEvent


class EventStream:
    """The events of a stream, read by one connection at a time.

    A new connection gets the events after its ``Last-Event-ID``. Without that header, it continues where the
    connection before it stopped.
    """

    def __init__(self) -> None:
        self._events: Final[list[bytes | None]] = []  # ``None``: the connection ends here, but not the stream
        self._position_after: Final[dict[str, int]] = {}
        self._position = 0
        self._last_reader = 0
        self._changed = asyncio.Event()
        self._is_over = False

    def put(self, event: bytes, id: str | None = None) -> None:
        """Add an event; ``id`` is its event id, if it has one."""
        self._events.append(event)
        if id:
            self._position_after[id] = len(self._events)
        self._notify_reader()

    def pause(self) -> None:
        """End the connection when it has sent the events so far. The stream can be resumed."""
        self._events.append(None)
        self._notify_reader()

    def end(self) -> None:
        """End the stream: no more events will come."""
        self._is_over = True
        self._notify_reader()

    def holds(self, id: str) -> bool:
        """Whether this stream contains the event with this id."""
        return id in self._position_after

    async def read(self, last_id: str | None = None) -> AsyncIterator[bytes]:
        """Yield the events for a new connection, and end the older connection."""
        if last_id is not None:
            self._position = self._position_after[last_id]
            if self._position < len(self._events) and self._events[self._position] is None:
                self._position += 1
        self._last_reader += 1
        reader = self._last_reader
        self._notify_reader()
        while reader == self._last_reader:
            if self._position < len(self._events):
                event = self._events[self._position]
                self._position += 1
                if event is None:
                    return
                yield event
            elif self._is_over:
                return
            else:
                await self._changed.wait()

    def _notify_reader(self) -> None:
        """Wake the waiting reader; the next wait needs an event that is not set."""
        self._changed.set()
        self._changed = asyncio.Event()


def event(out: OutgoingMessage) -> bytes:
    """Return a message as an event, with the fields of the recorded event if there was one."""
    recorded = out.recorded.event if out.recorded else None
    if recorded is None:
        return _data(out.raw, b"event: message\n")
    # ``before`` and ``after`` are the recorded bytes around the data of the event. If the data was on several
    # lines, ``after`` is ``None``.
    if recorded.after is not None and b"\n" not in out.raw and b"\r" not in out.raw:
        return recorded.before + out.raw + recorded.after
    return _data(out.raw, _fields(recorded))


def _fields(recorded: SseEvent) -> bytes:
    lines: list[str] = []
    if recorded.name is not None:
        lines.append(f"event: {recorded.name}\n")
    if recorded.id is not None:
        lines.append(f"id: {recorded.id}\n")
    if recorded.retry is not None:
        lines.append(f"retry: {recorded.retry}\n")
    return "".join(lines).encode()


def _data(raw: bytes, fields: bytes) -> bytes:
    return fields + b"".join(b"data: " + line + b"\n" for line in raw.splitlines() or [b""]) + b"\n"
