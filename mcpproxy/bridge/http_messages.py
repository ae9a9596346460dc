"""Requests and responses of the bridge's HTTP server, on the interface of ASGI."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

from mcpproxy.replay.server.request_body import BodyRoom, Receive, RequestBody

Send = Callable[[dict[str, Any]], Awaitable[None]]
Fields = Mapping[str, str]


class HttpRequest:
    """A request. ``fields`` are its header fields, with names in lower case."""

    def __init__(self, scope: dict[str, Any], receive: Receive, room: BodyRoom) -> None:
        self._receive: Final = receive
        self.method: Final[str] = scope["method"]
        self.path: Final[str] = scope["path"]
        self.fields: Final[dict[str, str]] = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        self.names: Final[list[str]] = [name.decode("latin-1") for name, _ in scope["headers"]]
        self._body: Final = RequestBody(room, receive, self.fields.get("content-length", ""))

    async def body(self) -> bytes:
        """Return the whole body.

        Raises:
            BodyRefusedError: it is not read to its end.
            ConnectionError: the client has gone.
        """
        return await self._body.read()

    def release(self) -> None:
        """Give back the room of the body: the request is over."""
        self._body.release()

    async def gone(self) -> None:
        """Wait until the client has gone. Call this after ``body``."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def accepts(self, kind: str) -> bool:
        """Whether the client accepts a media type; a client that names none accepts all."""
        accept = self.fields.get("accept", "").lower()
        wanted = (kind, kind.partition("/")[0] + "/*", "*/*")
        return not accept or any(part.partition(";")[0].strip() in wanted for part in accept.split(","))


class HttpResponder:
    """Sends the response to one request; ``extra`` are header fields of every response."""

    def __init__(self, send: Send, extra: Fields) -> None:
        self._send: Final = send
        self._extra: Final = extra
        self.has_begun = False

    async def send(self, status: int, body: bytes = b"", fields: Fields | None = None) -> None:
        """Send a whole response."""
        await self._begin(status, {**(fields or {}), "content-length": str(len(body))})
        await self._send({"type": "http.response.body", "body": body})

    async def message(self, status: int, body: bytes, fields: Fields | None = None) -> None:
        """Send a message as JSON."""
        await self.send(status, body, {"content-type": "application/json", **(fields or {})})

    async def stream(self, events: AsyncIterator[bytes], fields: Fields | None = None) -> None:
        """Send an event stream to its end."""
        kind = {"content-type": "text/event-stream", "cache-control": "no-cache", "x-accel-buffering": "no"}
        await self._begin(200, {**kind, **(fields or {})})
        async for event in events:
            await self._send({"type": "http.response.body", "body": event, "more_body": True})
        await self._send({"type": "http.response.body", "body": b""})

    async def _begin(self, status: int, fields: Fields) -> None:
        self.has_begun = True
        headers = [
            (name.encode("ascii"), value.encode("latin-1"))
            for name, value in {**fields, **self._extra}.items()
        ]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
