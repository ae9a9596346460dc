"""Make events of the traffic through a proxy: of held bytes on arrival, of the rest when it is recorded.

The proxy copies all traffic into the journal, from which the recorder makes the trace. But a policy has to
see a message before it passes. So an ``HttpAssembly`` here makes events of the same bytes, as the recorder
does. The bytes of a held message go through it before they are journaled, and are skipped afterwards. No I/O.
"""

import json
from collections import deque
from collections.abc import Iterator
from typing import Final

from mcpproxy.judge.session.frame import Event
from mcpproxy.record.recorder.http.assembly import HttpAssembly
from mcpproxy.record.relay import journal as journals
from mcpproxy.record.trace.records import Encoded

_ALTERED: Final = {journals.CLIENT_ALTERED: journals.CLIENT, journals.SERVER_ALTERED: journals.SERVER}
"""Kind of the journal records of bytes that a policy has changed or withheld -> kind for bytes that pass."""
_GIVEN: Final = (journals.CLIENT_GIVEN, journals.SERVER_GIVEN)
"""Kinds of the journal records of bytes that are given in place of others."""


class HttpEvents:
    """Makes events of the bytes of each connection, in their order, and of each byte only once.

    ``endpoint`` is the path of the MCP endpoint. With ``are_given`` the events are about what receivers are
    given, otherwise about what senders have sent.
    """

    def __init__(self, endpoint: str, *, are_given: bool) -> None:
        options = {"endpoint": endpoint, "mode": "reverse", "keep_credentials": True}
        self._assembly = HttpAssembly(json.dumps(options).encode())
        self._are_given = are_given
        self._unrecorded: dict[int, int] = {}
        """Connection -> how many bytes of its client were read early and are not recorded yet."""
        self._read_ahead: set[int] = set()
        """The connections on which the server's bytes are read before they are recorded."""
        self._recorded: deque[tuple[int, int, bytes, int]] = deque()
        """The records that were not read yet: kind, time in ns, payload and connection."""

    def record(self, kind: int, at_ns: int, payload: bytes, connection: int) -> None:
        """Take note of a record; ``read_recorded`` makes its events."""
        if kind == journals.CLIENT_EOF:
            self._unrecorded.pop(connection, None)
        if self._are_given:
            if kind in (journals.CLIENT_ALTERED, journals.CLIENT_GIVEN):
                return  # the bytes that were given instead were read early
        elif kind in _GIVEN:
            return
        elif kind in _ALTERED:
            kind, payload = _ALTERED[kind], payload.partition(b"\n")[2]
        if kind == journals.CLIENT and (early := self._unrecorded.get(connection)):
            self._unrecorded[connection] = max(0, early - len(payload))
            payload = payload[early:]
            if not payload:
                return
        if connection:  # 0: the record belongs to no connection
            self._recorded.append((kind, at_ns, payload, connection))

    def read_recorded(self) -> Iterator[Event]:
        """Yield the events of the records since the last call."""
        while self._recorded:
            kind, at_ns, payload, connection = self._recorded.popleft()
            if kind == journals.SERVER_EOF:
                self._read_ahead.discard(connection)
            if kind != journals.SERVER or connection not in self._read_ahead:
                yield from self._events(kind, at_ns, payload, connection)

    def read_client(
        self, data: bytes, at_ns: int, connection: int, *, is_recorded_later: bool = True
    ) -> Iterator[Event]:
        """Yield the events of a client's bytes that are held. ``read_recorded`` has to be called before.

        ``is_recorded_later``: the same bytes will be recorded, and are then skipped.
        """
        if is_recorded_later:
            self.skip(connection, len(data))
        yield from self._events(journals.CLIENT, at_ns, data, connection)

    def skip(self, connection: int, size: int) -> None:
        """Make no events of the next ``size`` bytes of a client that will be recorded."""
        self._unrecorded[connection] = self._unrecorded.get(connection, 0) + size

    def read_server(self, data: bytes, at_ns: int, connection: int) -> Iterator[Event]:
        """Yield the events of a server's bytes that are held; from now on its records make no events."""
        self._read_ahead.add(connection)
        yield from self._events(journals.SERVER, at_ns, data, connection)

    def stop_reading_ahead(self, connection: int) -> None:
        """Make events of a server's bytes only when they are recorded, because they all pass from now on."""
        self._read_ahead.discard(connection)

    def _events(self, kind: int, at_ns: int, payload: bytes, connection: int) -> Iterator[Event]:
        for event in self._assembly.take(kind, payload, at_ns, connection):
            if not isinstance(event, Encoded):
                yield event
