"""Requests and responses of a Streamable HTTP server, based on the ASGI interface."""

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
"""Whether the response to the current request is mcpproxy's own, and not the answer of a server."""


class HttpRequest:
    """A request. ``fields`` are its header fields, with names in lower case; ``target`` is its raw path.

    ``header`` has the same fields as ASGI gives them, those of the same name included.

    ``scope`` and ``receive`` are those of ASGI. The body takes its memory from ``room``.
    """

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
        """The body, after ``read_body``."""
        self._gone: asyncio.Task[None] | None = None

    async def read_body(self) -> None:
        """Read the body into ``content``.

        Raises:
            RefusedRequestError: the body is too long, stalls, or there is no room for it.
            ConnectionError: the client has gone.
        """
        self.content = await self._body.read()

    def release(self) -> None:
        """Free the resources of the request, which is over."""
        self._body.release()
        if self._gone is not None:
            self._gone.cancel()

    @property
    def has_gone(self) -> bool:
        """Whether the client has gone, as far as ``unless_gone`` has seen."""
        return self._gone is not None and self._gone.done()

    async def unless_gone(self, work: Coroutine[Any, Any, object], timeout_s: float | None = None) -> None:
        """Do ``work`` until it is done, ``timeout_s`` is over, or the client has gone; then cancel it.

        An exception in it is dropped. ``read_body`` has to be called before.
        """
        self._gone = self._gone or asyncio.create_task(self._wait_until_gone())
        task = asyncio.create_task(work)
        try:
            await asyncio.wait([task, self._gone], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def _wait_until_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def accepts(self, kind: str) -> bool:
        """Whether the client accepts a media type, with any weight; a client that names none accepts all."""
        accept = self.fields.get("accept", "").lower()
        wanted = (kind, kind.partition("/")[0] + "/*", "*/*")
        return not accept or any(part.partition(";")[0].strip() in wanted for part in accept.split(","))

    def check_accepts(self, *kinds: str) -> None:
        """Refuse a request whose client accepts none of these media types.

        Raises:
            RefusedRequestError: it accepts only other media types.
        """
        if not any(map(self.accepts, kinds)):
            raise RefusedRequestError(406, f"Accept does not name {' or '.join(kinds)}")

    def check_version(self, known: Collection[str]) -> None:
        """Refuse a request in a revision that mcpproxy does not know and that is not in ``known``.

        Raises:
            RefusedRequestError: the revision in its MCP-Protocol-Version field is unknown.

        Source: revision 2025-11-25, basic/transports, Protocol Version Header.
        """
        version = self.fields.get(PROTOCOL_VERSION, "")
        if version and version not in REVISIONS and version not in known:
            raise RefusedRequestError(400, f"MCP-Protocol-Version {version[:40]} is not known")

    def only_id(self) -> bytes | None:
        """Return the id, as written, of the only request in the body; ``None`` for none or several."""
        ids = [
            value_bytes(raw, ("id",))
            for single, raw in messages_with_bytes(parse(self.content), self.content)
            if isinstance(single, Request) and single.id is not None
        ]
        return ids[0] if len(ids) == 1 else None


class HttpResponder:
    """Sends the response to one request; ``extra`` are header fields that are added to it.

    ``has_begun`` says whether the head of the response was sent, or the connection cut.
    """

    def __init__(self, send: Send, extra: Fields) -> None:
        self._send: Final = send
        self._extra: Final = extra
        self.has_begun = False

    async def send(self, status: int, body: bytes = b"", fields: Fields | None = None) -> None:
        """Send a complete response."""
        length = {} if status in _WITHOUT_LENGTH else {"content-length": str(len(body))}
        await self._begin_response(status, {**(fields or {}), **length})
        await self._send({"type": "http.response.body", "body": body})

    async def message(self, status: int, body: bytes, fields: Fields | None = None) -> None:
        """Send a complete response with a JSON body."""
        await self.send(status, body, {"content-type": "application/json", **(fields or {})})

    async def refuse(self, refused: RefusedRequestError, id: bytes | None) -> None:
        """Send our own JSON-RPC error to the request with this id; ``None`` if the id is not known."""
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
            await self._begin_response(status, {**fields, "content-length": str(len(body) + 1)})
            await self._send({"type": "http.response.body", "body": body, "more_body": True})
        self.has_begun = True
        # ASGI cannot close a connection, but uvicorn's ``send`` is a method of an object with its transport.
        request = getattr(self._send, "__self__", None)
        transport: asyncio.Transport | None = getattr(request, "transport", None)
        if transport is not None:
            transport.close()
            await asyncio.sleep(0)  # so that uvicorn notices, and does not send an error response

    async def _send_events(self, events: AsyncIterator[bytes], fields: Fields, status: int) -> None:
        kind = {"content-type": _EVENTS, "cache-control": "no-cache", "x-accel-buffering": "no"}
        await self._begin_response(status, {**kind, **fields})
        async for event in events:
            await self._send({"type": "http.response.body", "body": event, "more_body": True})
        await self._send({"type": "http.response.body", "body": b""})

    async def _begin_response(self, status: int, fields: Fields) -> None:
        self.has_begun = True
        headers = [
            (name.encode("ascii"), value.encode("latin-1"))
            for name, value in {**fields, **self._extra}.items()
        ]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})


def as_body(messages: Sequence[bytes]) -> bytes:
    """Return messages as a body: a single message as it is, several as a batch."""
    return messages[0] if len(messages) == 1 else b"[" + b",".join(messages) + b"]"
