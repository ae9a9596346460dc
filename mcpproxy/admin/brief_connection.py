"""Connections to the admin port: short ones, and not many at a time.

A health check that gets no answer restarts a container, so nobody may keep others from asking. Each answer
ends its connection, one that is not over in time is cut off, and where there are too many the oldest goes.
"""

import asyncio
from itertools import count
from typing import Final

from uvicorn.protocols.http.h11_impl import H11Protocol

LIFE_S: Final = 5.0
"""Time for a request and its answer; both are short."""

MOST: Final = 64
"""So many connections at a time."""

_numbers: Final = count()


class BriefConnection(H11Protocol):
    """One connection. ``life_s`` is how long it lasts at most."""

    life_s: float = LIFE_S

    number: int
    _end: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] # as in the base
        super().connection_made(transport)
        self.number = next(_numbers)
        self._end = self.loop.call_later(self.life_s, transport.abort)
        if len(self.connections) > MOST:
            others = [one for one in self.connections if isinstance(one, BriefConnection)]
            min(others, key=_number).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end.cancel()
        super().connection_lost(exc)


def _number(connection: BriefConnection) -> int:
    return connection.number
