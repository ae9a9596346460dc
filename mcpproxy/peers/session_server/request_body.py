"""Bodies of requests to our HTTP servers: each has a longest length, and all together share their memory."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from mcpproxy.peers.session_server.refused_request import TRY_LATER, RefusedRequestError

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
"""The function of ASGI that returns the next event of a request."""

LONGEST_BODY: Final = 64 << 20

BODIES_BYTES: Final = 256 << 20
"""How many bytes the bodies of all requests that are under way may have."""

SMALL_BODY: Final = 64 << 10
"""A body up to this length is taken however many others there are."""

STALLED_S: Final = 30.0
"""How long a body may bring nothing before its request is refused."""


class BodyRoom:
    """The memory that the bodies of all requests share."""

    def __init__(self) -> None:
        self.left = BODIES_BYTES


class RequestBody:
    """The body of one request. ``length`` is its Content-Length field, empty without one."""

    def __init__(self, room: BodyRoom, receive: Receive, length: str = "") -> None:
        self._room: Final = room
        self._receive: Final = receive
        self._length: Final = length
        self._taken = 0

    async def read(self) -> bytes:
        """Return the whole body. Its room is taken until ``release``.

        Raises:
            RefusedRequestError: it is too long, stalls, or there are too many others. A body that says how
                long it is finds out before it comes.
            ConnectionError: the client has gone.
        """
        is_number = self._length.isdecimal() and len(self._length) < 20
        self._take(int(self._length) if is_number else 0)
        body = bytearray()
        while True:
            try:
                async with asyncio.timeout(STALLED_S):
                    event = await self._receive()
            except TimeoutError:
                raise RefusedRequestError(408, f"nothing more of the body came for {STALLED_S:g} s") from None
            if event["type"] == "http.disconnect":
                raise ConnectionError
            body += event.get("body", b"")
            self._take(len(body))
            if not event.get("more_body", False):
                return bytes(body)

    def release(self) -> None:
        """Give back the room: the request is over."""
        self._room.left += self._taken
        self._taken = 0

    def _take(self, size: int) -> None:
        if size > LONGEST_BODY:
            raise RefusedRequestError(413, f"the body has more than {LONGEST_BODY >> 20} MiB")
        if size > max(self._taken, SMALL_BODY):
            if size - self._taken > self._room.left:
                raise RefusedRequestError(
                    503, "the requests under way leave no room for this body; try again", fields=TRY_LATER
                )
            self._room.left -= size - self._taken
            self._taken = size
