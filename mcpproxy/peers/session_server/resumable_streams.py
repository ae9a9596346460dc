"""The event streams of one HTTP session. Their events are kept for a while, for a resumption.

A client resumes a stream by ``Last-Event-ID``. An event id is ``STREAM-NUMBER``: the number of the stream,
and of the event in it. It does not contain the id of the session, which is a secret.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from mcpproxy.peers.session_server.event_stream import (
    ConnectionLimit,
    EventStream,
    GoneEventsError,
    event_bytes,
)

KEPT_BYTES: Final = 4 << 20
"""How many bytes of events a stream keeps for a client that connects again."""

_BEHIND_BYTES: Final = 1 << 20
"""A client is behind if more bytes than this are untaken, until at most half as many are left."""

_POLL_S: Final = 5.0
"""How long the connection of a GET is kept if the connections of POSTs are closed at once."""

_AWAITED_S: Final = 10.0
"""How long, beyond ``retry``, a client may take to connect again. After that, its stream has no client."""


@dataclass(frozen=True)
class Polling:
    """The server closes the connection of a stream after ``after_s``; a client reconnects after ``retry_s``.

    Both are in seconds.

    Source: revision 2025-11-25, basic/transports, Sending Messages to the Server, 6, and Listening for
    Messages from the Server, 4: after an event with an id the server may close the connection without ending
    the stream, and sends ``retry`` before. Before that revision a server should not close a stream without
    the response, and from 2026-07-28 on a closed stream is a cancelled request.
    """

    after_s: float
    retry_s: float

    def of_post(self, began_at: float) -> ConnectionLimit:
        """Return the limit for the connection of a POST that began at this time of the event loop's clock."""
        return ConnectionLimit(began_at + self.after_s, self.retry_s)

    def of_get(self, began_at: float) -> ConnectionLimit:
        """Return the limit for the connection of a GET, never zero: the client would reconnect endlessly."""
        return ConnectionLimit(began_at + (self.after_s or _POLL_S), self.retry_s)


class ResumableStream(EventStream):
    """One stream of a session. ``number`` is its number in event ids.

    ``has_ids`` says whether its events have ids; without ids, an event is kept only until it is sent.
    ``on_pace`` is called when ``is_behind`` changes, and ``on_drop`` when an event is dropped that no
    connection has taken, which happens only without a client. ``on_size`` is called with the change when
    ``size`` changes, and with 0 when the client has taken an event or has gone.
    """

    def __init__(
        self,
        number: int,
        on_pace: "Callable[[ResumableStream], None]",
        on_drop: Callable[[], None],
        on_size: "Callable[[ResumableStream, int], None]",
        *,
        has_ids: bool,
    ) -> None:
        super().__init__()
        self.number: Final = number
        self.has_ids: Final = has_ids
        self.is_connected = False
        self.is_behind = False
        """Whether there is a client that does not keep up."""
        self._on_pace: Final = on_pace
        self._on_drop: Final = on_drop
        self._on_size: Final = on_size
        self._unsent_bytes = 0
        self._awaited_until = 0.0  # in seconds of the event loop's clock
        self.size = 0
        """How many bytes of events are kept."""

    @property
    def has_client(self) -> bool:
        """Whether a client is connected, or still has time to connect again."""
        return self.is_connected or asyncio.get_running_loop().time() < self._awaited_until

    @property
    def awaited_bytes(self) -> int:
        """How many bytes of events a client has yet to take."""
        return self._unsent_bytes if self.has_client else 0

    def await_client(self, seconds: float = _AWAITED_S) -> None:
        """Count as a stream with a client for this time, even if none is connected."""
        loop = asyncio.get_running_loop()
        self._awaited_until = loop.time() + seconds
        loop.call_at(self._awaited_until, self._on_client_gone)

    def put(self, line: bytes) -> None:
        """Add a message as an event."""
        self.add(event_bytes(line, b"event: message\n" + self._next_id()))

    def prime(self) -> None:
        """Add an event without data, which gives the client an id for a resumption."""
        self.add(event_bytes(b"", self._next_id()))

    def add(self, event: bytes) -> int:
        """Add an event, which contains its id already, and return its number."""
        number = super().add(event)
        self._unsent_bytes += len(event)
        self._resize(len(event))
        self._drop_old()
        self._update_pace()
        return number

    def rewind(self, number: int) -> None:
        """Let the next connection begin after the event ``number``, and expect it soon.

        Raises:
            GoneEventsError: as in ``EventStream.rewind``.
        """
        super().rewind(number)
        self.is_connected = False
        self.await_client()
        self._unsent_bytes = sum(map(_size, islice(self._events, self._next - self._first, None)))

    def _next_id(self) -> bytes:
        return b"id: %d-%d\n" % (self.number, self._first + len(self._events)) if self.has_ids else b""

    def _drop_old(self) -> None:
        """Drop the oldest events beyond ``KEPT_BYTES``, unless a client has yet to take them.

        The last event is kept. Without ids, however, all events that are sent are dropped.
        """
        while self._events:
            is_sent = self._first < self._next
            is_beyond = self.size > KEPT_BYTES and len(self._events) > 1
            if not (is_sent and not self.has_ids) and not (is_beyond and (is_sent or not self.has_client)):
                return
            self._drop_first()

    def drop_oldest(self, excess: int, *, unsent: bool, keeps_last: bool) -> None:
        """Drop the oldest events until ``excess`` bytes are freed or no more may be dropped.

        With ``unsent``, and if there is no client, this includes events that no connection has taken. With
        ``keeps_last`` the last event is kept.
        """
        enough = self.size - excess
        may_drop_unsent = unsent and not self.has_client
        while self.size > enough and len(self._events) > keeps_last:
            if self._first >= self._next and not may_drop_unsent:
                return
            self._drop_first()

    def _drop_first(self) -> None:
        size = _size(self._events.popleft())
        is_sent = self._first < self._next
        self._first += 1
        if not is_sent:
            self._unsent_bytes -= size
            self._next = self._first
            self._on_drop()
        self._resize(-size)

    def _resize(self, change: int) -> None:
        self.size += change
        self._on_size(self, change)

    def _on_client_gone(self) -> None:
        self._update_pace()
        self._on_size(self, 0)

    def _update_pace(self) -> None:
        most = _BEHIND_BYTES // 2 if self.is_behind else _BEHIND_BYTES
        is_behind = self._unsent_bytes > most and self.has_client
        if is_behind != self.is_behind:
            self.is_behind = is_behind
            self._on_pace(self)

    def _take_event(self) -> bytes | None:
        event = super()._take_event()
        self._unsent_bytes -= _size(event)
        self._drop_old()
        self._update_pace()
        self._on_size(self, 0)
        return event

    def _on_connected(self, limit: ConnectionLimit | None) -> None:
        if limit is not None and not self.has_unsent and not self.is_over:
            self.prime()  # some clients do not remember the id that they got on an earlier connection
        self.is_connected = True
        self._awaited_until = 0.0
        self._update_pace()

    def _on_limit(self, limit: ConnectionLimit) -> None:
        self.await_client(limit.retry_s + _AWAITED_S)

    def _on_disconnected(self) -> None:
        self.is_connected = False
        self._on_client_gone()


def _size(event: bytes | None) -> int:
    return len(event or b"")


def position(last_event_id: str) -> tuple[int, int]:
    """Return the numbers of the stream and of the event that an event id names.

    Raises:
        GoneEventsError: it is not an event id of this server.
    """
    stream, dash, number = last_event_id.partition("-")
    if not (dash and stream.isdecimal() and number.isdecimal() and last_event_id.isascii()):
        raise GoneEventsError("the Last-Event-ID is not one of this server")
    if len(last_event_id) > 40:
        raise GoneEventsError("the Last-Event-ID is not one of this server")
    return int(stream), int(number)
