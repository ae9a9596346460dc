"""One MCP session over HTTP: what a good client says in headers, and the streams that belong to it.

By Streamable HTTP or, where the server has nothing else, by the HTTP+SSE of 2024-11-05.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Final
from urllib.parse import urljoin

from mcpproxy.protocol.jsonrpc import (
    JSON,
    Absent,
    Batch,
    ErrorResponse,
    Notification,
    Request,
    Response,
    parse,
)
from mcpproxy.protocol.mirrors import ANNOTATION, argument, mirrors
from mcpproxy.protocol.revisions import STATELESS, VERSION_KEY
from mcpproxy.replay.client.headers import encoded_name
from mcpproxy.session.frame import CLIENT, Frame
from mcpproxy.trace.records import Recorded
from mcpproxy.validate.errors import GoneError, TimedOutError
from mcpproxy.validate.exchange import Exchange, Headers
from mcpproxy.validate.http import CONNECT_S, HttpServer
from mcpproxy.validate.wire import Came, Gone, Hear, News, Over

_RESUMPTIONS: Final = 5
_CLOSE_S: Final = 5.0
_NAMES: Final = ("name", "uri", "taskId")


class HttpWire:
    """One MCP session with ``server``.

    ``session_id`` and ``version`` go into its headers once they are known. ``stream`` is what the server says
    everything on, if it ``is_older`` than Streamable HTTP.
    """

    transport = "http"

    def __init__(self, server: HttpServer) -> None:
        self.server: Final = server
        self.tape = server.tape
        self.hear: Hear = _nobody
        self.session_id = ""
        self.version = ""
        self.last: Exchange | None = None
        """The exchange of the last message that was sent."""
        self.stream: Exchange | None = None
        self._streaming: asyncio.Task[None] | None = None
        self._posts: Final[dict[Exchange, asyncio.Task[None]]] = {}

    @property
    def is_older(self) -> bool:
        """Whether this session goes by HTTP+SSE."""
        return self.stream is not None

    async def open(self) -> None:
        """Nothing is sent yet: the first message shows whether somebody is there.

        Raises:
            GoneError: the server speaks HTTP+SSE, and does not begin a stream now.
        """
        if self.server.is_older and not await self.fall_back(CONNECT_S):
            raise GoneError("the server did not begin another stream with an endpoint event")

    async def fall_back(self, timeout_s: float) -> bool:
        """Go over to HTTP+SSE, if a GET opens a stream of it; whether it does."""
        stream = Exchange(self)
        self._streaming = self.server.spawn(self._stream(stream))
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await stream.until(lambda: bool(stream.endpoint))
        if stream.endpoint:
            self.stream = stream
            self.server.is_older = True
            return True
        await self._end_stream()
        return False

    def headers(self, raw: bytes = b"") -> list[tuple[str, str]]:
        """What a good client sends with the message ``raw``, or with a request without body."""
        accept = "application/json, text/event-stream" if raw else "text/event-stream"
        found = [("Accept", accept)]
        if raw:
            found.append(("Content-Type", "application/json"))
        if self.session_id:
            found.append(("Mcp-Session-Id", self.session_id))
        message = parse(raw) if raw else None
        said = message if isinstance(message, Request | Notification) else None
        params = said.params if said else None
        version = _at(params, "_meta", VERSION_KEY) or self.version
        if version:
            found.append(("MCP-Protocol-Version", str(version)))
        if said and (version in STATELESS or _at(params, "_meta", VERSION_KEY)):
            found.append(("Mcp-Method", said.method))
            name = next((name for key in _NAMES if isinstance(name := _at(params, key), str)), None)
            if name is not None:
                found.append(("Mcp-Name", encoded_name(name)))
            found += self._mirrored(said)
        return found

    async def send(self, raw: bytes) -> int:
        """POST one message; the number of its frame, as soon as that has one.

        Raises:
            GoneError: the server cannot be reached.
        """
        return (await self.post(raw, self.headers(raw))).seq

    async def post(self, raw: bytes, headers: Headers) -> Exchange:
        """POST a message with just these headers, and go on as soon as it was sent.

        Raises:
            GoneError: the server cannot be reached.
        """
        # What HTTP+SSE says to a POST is no message: those come on the stream.
        exchange = self.last = Exchange(None if self.is_older else self)
        sent = asyncio.Event()

        def hear(event: Recorded) -> None:
            if isinstance(event, Frame) and event.sender == CLIENT and event.exchange == exchange.number:
                sent.set()

        self.tape.listen(hear)
        self._posts[exchange] = task = self.server.spawn(self._run(exchange, raw, headers))
        task.add_done_callback(lambda _: self._posts.pop(exchange, None))
        waits = [asyncio.create_task(sent.wait()), asyncio.create_task(exchange.begun.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            self.tape.unlisten(hear)
        if exchange.failure:
            raise GoneError(f"the server {exchange.failure}", exchange.seen)
        return exchange

    async def listen(self) -> None:
        """Open the stream for what the server says of its own, if it has one; nobody waits for it."""
        if not self.is_older and self._streaming is None:
            self._streaming = self.server.spawn(self.server.run(Exchange(self), "GET", self.headers(), b""))

    def abandon(self, exchange: Exchange) -> None:
        """Close the connection of a POST, whatever else would come on it."""
        if task := self._posts.get(exchange):
            task.cancel()

    def came(self, frame: Frame) -> None:
        """A frame of the server, which may list tools that want arguments in headers."""
        if ANNOTATION.encode() in frame.raw and isinstance(message := frame.message, Response):
            tools = message.result.get("tools") if isinstance(message.result, dict) else None
            for tool in tools if isinstance(tools, list) else ():
                if isinstance(tool, dict) and isinstance(name := tool.get("name"), str):
                    self.server.mirrors[name] = mirrors(tool.get("inputSchema"))
        self.hear(Came(frame))

    async def close(self) -> None:
        """End the session with DELETE, if it has an id."""
        await self._end_stream()
        if self.session_id:
            with suppress(GoneError, TimedOutError):
                await self.server.exchange("DELETE", self.headers(), timeout_s=_CLOSE_S)

    def _mirrored(self, request: Request | Notification) -> list[tuple[str, str]]:
        """The arguments of a call that its tool wants in headers."""
        params = None if isinstance(request.params, Absent) else request.params
        if request.method != "tools/call" or not isinstance(params, dict):
            return []
        wanted = self.server.mirrors.get(str(params.get("name")))
        found: list[tuple[str, str]] = []
        for path, header in wanted.headers if wanted else ():
            value = argument(params.get("arguments"), path)
            if isinstance(value, bool | int | str):
                text = str(value).lower() if isinstance(value, bool) else str(value)
                found.append((f"Mcp-Param-{header}", encoded_name(text)))
        return found

    async def _stream(self, stream: Exchange) -> None:
        await self.server.run(stream, "GET", self.headers(), b"")
        if self.stream is stream:
            self.hear(Gone(f"it {stream.failure or 'ended the stream of the session'}"))

    async def _end_stream(self) -> None:
        self.stream, task, self._streaming = None, self._streaming, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self, exchange: Exchange, raw: bytes, headers: Headers) -> None:
        url = urljoin(self.server.url, self.stream.endpoint) if self.stream else ""
        await self.server.run(exchange, "POST", headers, raw, url=url)
        if exchange.failure and not exchange.number:
            self.hear(Gone(f"it {exchange.failure}"))
            return
        if self.is_older and exchange.status < 300 and not exchange.failure:
            return  # The answer comes on the stream.
        owed = _requests_in(raw) - _answers_in(exchange.frames)
        latest = exchange
        for _ in range(_RESUMPTIONS):
            if owed <= 0 or not latest.last_id or not latest.is_stream:
                break
            await asyncio.sleep(latest.retry_s)
            more = Exchange(self, last_id=latest.last_id)
            await self.server.run(more, "GET", [*self.headers(), ("Last-Event-ID", latest.last_id)], b"")
            owed -= _answers_in(more.frames)
            latest = more
        self.hear(Over(exchange.seq, exchange.status, exchange.failure))


def _nobody(news: News) -> None:
    """Nobody listens yet."""


def _requests_in(raw: bytes) -> int:
    message = parse(raw)
    singles = message.items if isinstance(message, Batch) else (message,)
    return sum(isinstance(single, Request) for single in singles)


def _answers_in(frames: Iterable[Frame]) -> int:
    found = 0
    for frame in frames:
        message = frame.message
        singles = message.items if isinstance(message, Batch) else (message,)
        found += sum(isinstance(single, Response | ErrorResponse) for single in singles)
    return found


def _at(value: object, *path: str) -> JSON:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None  # pyright: ignore
    return value if isinstance(value, str) else None
