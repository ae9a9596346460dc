"""Connections to the admin port: limited in time and number.

A container is restarted if its health check gets no answer, so no client may block others. Each answer ends
its connection, a connection that takes too long is aborted, and if there are too many the oldest is aborted.
"""

import asyncio
from itertools import count
from typing import Final

from uvicorn.protocols.http.h11_impl import H11Protocol

LIFE_S: Final = 5.0
"""How long a connection may take; request and answer are short."""

MAX_CONNECTIONS: Final = 64
"""How many connections may be open."""

_numbers: Final = count()


class BriefConnection(H11Protocol):
    """One connection, aborted after ``life_s`` seconds."""

    life_s: float = LIFE_S

    number: int
    _end: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] # as in the base
        super().connection_made(transport)
        self.number = next(_numbers)
        self._end = self.loop.call_later(self.life_s, transport.abort)
        if len(self.connections) > MAX_CONNECTIONS:
            others = [one for one in self.connections if isinstance(one, BriefConnection)]
            min(others, key=_number).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end.cancel()
        super().connection_lost(exc)


def _number(connection: BriefConnection) -> int:
    return connection.number
