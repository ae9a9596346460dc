"""Bodies of requests to our HTTP servers: the length of each is limited, and all share a limited memory."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from mcpproxy.peers.session_server.refused_request import TRY_LATER, RefusedRequestError

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
"""The ASGI function that returns the next event of a request."""

LONGEST_BODY: Final = 64 << 20
"""How many bytes the body of a request may have."""

BODIES_BYTES: Final = 256 << 20
"""How many bytes the bodies of all current requests may have together, without the small ones."""

SMALL_BODY: Final = 64 << 10
"""A body up to this length is always accepted, however many requests there are."""

STALLED_S: Final = 30.0
"""If no bytes of a body arrive for this time, its request is refused."""


class BodyRoom:
    """The memory that the bodies of all requests share; ``left`` is how many bytes are free."""

    def __init__(self) -> None:
        self.left = BODIES_BYTES


class RequestBody:
    """The body of one request. ``length`` is its Content-Length field, empty without one."""

    def __init__(self, room: BodyRoom, receive: Receive, length: str = "") -> None:
        self._room: Final = room
        self._receive: Final = receive
        self._length: Final = length
        self._reserved = 0

    async def read(self) -> bytes:
        """Return the complete body. Its memory is reserved until ``release``.

        Raises:
            RefusedRequestError: the body stalls, is too long, or there is no room for it. With a
                Content-Length, the last two are noticed before the body arrives.
            ConnectionError: the client has gone.
        """
        is_number = self._length.isdecimal() and len(self._length) < 20
        self._reserve(int(self._length) if is_number else 0)
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
            self._reserve(len(body))
            if not event.get("more_body", False):
                return bytes(body)

    def release(self) -> None:
        """Free the memory of the body, because its request is over."""
        self._room.left += self._reserved
        self._reserved = 0

    def _reserve(self, size: int) -> None:
        """Reserve memory for ``size`` bytes of the body in all; none for up to ``SMALL_BODY``.

        Raises:
            RefusedRequestError: the body is too long, or there is no room for it.
        """
        if size > LONGEST_BODY:
            raise RefusedRequestError(413, f"the body has more than {LONGEST_BODY >> 20} MiB")
        if size > max(self._reserved, SMALL_BODY):
            if size - self._reserved > self._room.left:
                raise RefusedRequestError(
                    503, "the requests under way leave no room for this body; try again", fields=TRY_LATER
                )
            self._room.left -= size - self._reserved
            self._reserved = size
