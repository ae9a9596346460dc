"""Connections to the admin port: limited in time and number.

A container is restarted if its health check gets no answer, so no client may block the others. Each answer
ends its connection. A connection that takes too long is aborted, and so is the oldest of too many
connections.
"""

import asyncio
from itertools import count
from typing import Final

from uvicorn.protocols.http.h11_impl import H11Protocol

LIFE_S: Final = 5.0
"""How long a connection may take; request and answer are short."""

MAX_CONNECTIONS: Final = 64
"""How many connections may be open at once."""

_numbers: Final = count()
"""Numbers the connections in the order in which they were opened."""


class BriefConnection(H11Protocol):
    """One connection, aborted after ``life_s`` seconds, or earlier if it is the oldest of too many."""

    life_s: float = LIFE_S

    number: int
    _abort_timer: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] # as in the base
        super().connection_made(transport)
        self.number = next(_numbers)
        self._abort_timer = self.loop.call_later(self.life_s, transport.abort)
        if len(self.connections) > MAX_CONNECTIONS:
            open_connections = [
                connection for connection in self.connections if isinstance(connection, BriefConnection)
            ]
            min(open_connections, key=_number_of).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._abort_timer.cancel()
        super().connection_lost(exc)


def _number_of(connection: BriefConnection) -> int:
    return connection.number
