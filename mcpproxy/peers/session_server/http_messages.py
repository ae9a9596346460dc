"""Requests and responses of a server of Streamable HTTP, on the interface of ASGI."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final

from mcpproxy.peers.session_server.refused_request import RefusedRequestError
from mcpproxy.peers.session_server.request_body import BodyRoom, Receive, RequestBody
from mcpproxy.protocol.error_message import error_message
from mcpproxy.protocol.header_names import PROTOCOL_VERSION
from mcpproxy.protocol.jsonrpc import Request, parse
from mcpproxy.protocol.raw_json import messages_with_bytes, value_bytes
from mcpproxy.protocol.revisions import REVISIONS

Send = Callable[[dict[str, Any]], Awaitable[None]]
Fields = Mapping[str, str]

_EVENTS: Final = "text/event-stream"
_WITHOUT_LENGTH: Final = (204, 304)
"""Statuses whose responses have no Content-Length (RFC 9110, section 8.6)."""

is_own: Final[ContextVar[bool]] = ContextVar("is_own", default=False)
"""Whether the current request is answered by mcpproxy itself, and not in the words of a server."""


class HttpRequest:
    """A request. ``fields`` are its header fields, with names in lower case."""

    def __init__(self, scope: dict[str, Any], receive: Receive, room: BodyRoom) -> None:
        self._receive: Final = receive
        self.method: Final[str] = scope["method"]
        self.path: Final[str] = scope["path"]
        self.target: Final[bytes] = scope["raw_path"]
        self.query: Final[str] = scope["query_string"].decode("latin-1")
        self.header: Final[list[tuple[bytes, bytes]]] = scope["headers"]
        self.fields: Final[dict[str, str]] = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        self._body: Final = RequestBody(room, receive, self.fields.get("content-length", ""))
        self.content = b""
        """The body, once it is read."""
        self._gone: asyncio.Task[None] | None = None

    async def read_body(self) -> None:
        """Read the whole body.

        Raises:
            RefusedRequestError: it is not read to its end.
            ConnectionError: the client has gone.
        """
        self.content = await self._body.read()

    def release(self) -> None:
        """Give back the room of the body: the request is over."""
        self._body.release()
        if self._gone is not None:
            self._gone.cancel()

    @property
    def has_gone(self) -> bool:
        """Whether the client has gone while ``unless_gone`` was under way."""
        return self._gone is not None and self._gone.done()

    async def unless_gone(self, work: Coroutine[Any, Any, object], timeout_s: float | None = None) -> None:
        """Do ``work`` until it is done, the time is over, or the client has gone. The body has been read."""
        self._gone = self._gone or asyncio.create_task(self._wait_until_gone())
        working = asyncio.create_task(work)
        try:
            await asyncio.wait([working, self._gone], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            working.cancel()
        await asyncio.gather(working, return_exceptions=True)

    async def _wait_until_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def accepts(self, kind: str) -> bool:
        """Whether the client accepts a media type; a client that names none accepts all."""
        accept = self.fields.get("accept", "").lower()
        wanted = (kind, kind.partition("/")[0] + "/*", "*/*")
        return not accept or any(part.partition(";")[0].strip() in wanted for part in accept.split(","))

    def check_accepts(self, *kinds: str) -> None:
        """Refuse a request whose client accepts none of these media types.

        Raises:
            RefusedRequestError: it accepts others alone.
        """
        if not any(map(self.accepts, kinds)):
            raise RefusedRequestError(406, f"Accept does not name {' or '.join(kinds)}")

    def check_version(self, known: Collection[str]) -> None:
        """Refuse a request in a revision that is neither ours nor one of those ``known``.

        Raises:
            RefusedRequestError: nobody knows its MCP-Protocol-Version.

        Source: revision 2025-11-25, basic/transports, Protocol Version Header.
        """
        version = self.fields.get(PROTOCOL_VERSION, "")
        if version and version not in REVISIONS and version not in known:
            raise RefusedRequestError(400, f"MCP-Protocol-Version {version[:40]} is not known")

    def only_id(self) -> bytes | None:
        """Return the id of the only request in the body, as it was written; ``None`` if there is no such."""
        ids = [
            value_bytes(raw, ("id",))
            for single, raw in messages_with_bytes(parse(self.content), self.content)
            if isinstance(single, Request) and single.id is not None
        ]
        return ids[0] if len(ids) == 1 else None


class HttpResponder:
    """Sends the response to one request; ``extra`` are header fields of every response."""

    def __init__(self, send: Send, extra: Fields) -> None:
        self._send: Final = send
        self._extra: Final = extra
        self.has_begun = False

    async def send(self, status: int, body: bytes = b"", fields: Fields | None = None) -> None:
        """Send a whole response."""
        length = {} if status in _WITHOUT_LENGTH else {"content-length": str(len(body))}
        await self._begin(status, {**(fields or {}), **length})
        await self._send({"type": "http.response.body", "body": body})

    async def message(self, status: int, body: bytes, fields: Fields | None = None) -> None:
        """Send a message as JSON."""
        await self.send(status, body, {"content-type": "application/json", **(fields or {})})

    async def refuse(self, refused: RefusedRequestError, id: bytes | None) -> None:
        """Send an error of ours for the request with this id."""
        is_own.set(True)
        error = error_message(refused.code, f"mcpproxy: {refused}", id)
        await self.message(refused.status, error, refused.fields)

    async def stream(
        self,
        request: HttpRequest,
        events: AsyncIterator[bytes],
        fields: Fields | None = None,
        status: int = 200,
    ) -> None:
        """Send an event stream to its end, or until the client of ``request`` has gone."""
        await request.unless_gone(self._send_events(events, fields or {}, status))

    async def cut(self, status: int, body: bytes, fields: Fields) -> None:
        """Close the connection before the response is complete; with the status 0, before it has begun."""
        if status:
            await self._begin(status, {**fields, "content-length": str(len(body) + 1)})
            await self._send({"type": "http.response.body", "body": body, "more_body": True})
        self.has_begun = True
        # ASGI cannot close a connection. uvicorn's ``send`` is a method of the request, which knows its own.
        request = getattr(self._send, "__self__", None)
        transport: asyncio.Transport | None = getattr(request, "transport", None)
        if transport is not None:
            transport.close()
            await asyncio.sleep(0)  # so that uvicorn notices, and sends no answer of its own

    async def _send_events(self, events: AsyncIterator[bytes], fields: Fields, status: int) -> None:
        kind = {"content-type": _EVENTS, "cache-control": "no-cache", "x-accel-buffering": "no"}
        await self._begin(status, {**kind, **fields})
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


def as_body(messages: Sequence[bytes]) -> bytes:
    """Return the body with these messages: one alone, and several as a batch."""
    return messages[0] if len(messages) == 1 else b"[" + b",".join(messages) + b"]"
