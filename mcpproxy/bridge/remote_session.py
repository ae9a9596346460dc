"""``bridge URL``: a client on stdio, a server over Streamable HTTP, or over HTTP+SSE if it has only that.

Each line of the client is the body of a POST, and each message of the server becomes a line. A request that
gets no answer over HTTP, because the server is gone or sends something else, gets an error of ours, so that
no client waits for nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import Final

from mcpproxy.bridge.leg import Say
from mcpproxy.bridge.message_bytes import as_line, own_error, requests_in
from mcpproxy.bridge.pipes import LineWriter
from mcpproxy.client.remote_server import HttpResponse, RemoteError, RemoteServer, TooLongError
from mcpproxy.client.stream_cursor import MOST_IN_VAIN, StreamCursor
from mcpproxy.protocol.header_names import SESSION_ID
from mcpproxy.protocol.jsonrpc import (
    ErrorResponse,
    Malformed,
    Message,
    Notification,
    Request,
    Response,
    parse,
)
from mcpproxy.protocol.message_parts import Key, answers_in, member, singles
from mcpproxy.protocol.mirrors import Mirrors, listed_mirrors
from mcpproxy.protocol.request_headers import required_headers, stateless_version

_NOTIFIED_S: Final = 2.0
"""How long the next line waits for the answer to a notification, which may change what the next line does."""

_CLOSE_S: Final = 2.0
"""How long the DELETE at the end of a session may take."""

_ENDPOINT_S: Final = 5.0
"""How long a server of HTTP+SSE may take to name its endpoint."""

_OLD_TRANSPORT: Final = (400, 404, 405)
"""The statuses with which a server that has only HTTP+SSE answers a POST to its stream."""

_LISTEN: Final = "subscriptions/listen"
_SHOWN_CHARACTERS: Final = 200


class Post:
    """A line of the client on its way. ``requests`` are the ids in it, each with its bytes.

    ``sent`` is set when the body is written, ``settled`` when the head of the response has come, ``answered``
    when every request is answered. All are set at the end as well.
    """

    def __init__(self, raw: bytes) -> None:
        self.raw: Final = raw
        self.message: Final[Message] = parse(raw)
        self.requests: Final = requests_in(raw, self.message)
        self.sent: Final = asyncio.Event()
        self.settled: Final = asyncio.Event()
        self.answered: Final = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    @property
    def methods(self) -> set[str]:
        """The methods of the requests and notifications in it."""
        return {
            single.method for single in singles(self.message) if isinstance(single, Request | Notification)
        }

    @property
    def is_stateless(self) -> bool:
        """Whether it is a request of a stateless revision."""
        return isinstance(self.message, Request) and bool(stateless_version(self.message))


class RemoteBridge:
    """Carries the messages of one client to ``server`` and back. ``out`` takes the lines for the client."""

    def __init__(self, server: RemoteServer, out: LineWriter, say: Say) -> None:
        self._server: Final = server
        self._out: Final = out
        self._say: Final = say
        self._mirrors: Final[dict[str, Mirrors]] = {}
        self._session_id = ""
        self._version = ""
        self._posts: Final[set[Post]] = set()
        self._pending: Final[dict[Key, Post]] = {}
        """The requests of the client that are not answered yet."""
        self._initialize: Key | None = None
        self._stream: asyncio.Task[None] | None = None
        self._endpoint = ""
        """Where messages are sent with HTTP+SSE; empty with Streamable HTTP."""
        self._has_endpoint: Final = asyncio.Event()
        self._progress: Final = asyncio.Event()
        self._lost: Final = asyncio.Event()
        self._lost_because = ""

    async def run(self, lines: AsyncIterator[bytes]) -> int:
        """Carry messages until the client has closed its end. Return the exit code: 1 for a lost session.

        After the client's end, requests that are open are still answered; a subscription is not waited for.
        """
        reading = asyncio.create_task(self._read(lines))
        ends = [asyncio.create_task(_wait(end)) for end in (self._lost, self._out.closed)]
        try:
            await asyncio.wait([reading, *ends], return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _cancel([reading, *ends])
            await self._close()
        return int(self._lost.is_set())

    async def _read(self, lines: AsyncIterator[bytes]) -> None:
        async for line in lines:
            if line.strip():
                await self._take(Post(line))
        while self._has_open():
            self._progress.clear()
            await self._progress.wait()

    def _has_open(self) -> bool:
        """Whether a message of the client is on its way, or a request other than a subscription is open."""
        return any(_LISTEN not in post.methods for post in self._pending.values()) or any(
            not post.settled.is_set() for post in self._posts
        )

    async def _take(self, post: Post) -> None:
        """Send a line, and return when the next one may be sent."""
        if self._close_cancelled(post.message):
            return
        self._posts.add(post)
        self._pending.update(dict.fromkeys(post.requests, post))
        post.task = asyncio.create_task(self._carry(post))
        if "initialize" in post.methods:
            self._initialize = next(iter(post.requests), None)
            await post.answered.wait()  # the next line needs the session id and the revision
        elif post.requests:
            await post.sent.wait()
        else:
            with suppress(TimeoutError):
                async with asyncio.timeout(_NOTIFIED_S):
                    await post.settled.wait()
            if "notifications/initialized" in post.methods and self._stream is None:
                self._stream = asyncio.create_task(self._listen())

    def _close_cancelled(self, message: Message) -> bool:
        """If a stateless client cancels an open request, close its response stream, which means the same."""
        if not isinstance(message, Notification) or message.method != "notifications/cancelled":
            return False
        id = member(message.params, "requestId")
        post = self._pending.get((type(id), id)) if isinstance(id, int | str) else None
        if post is None or post.task is None or not post.is_stateless:
            return False
        post.task.cancel()
        return True

    async def _carry(self, post: Post) -> None:
        """Send a line, and pass on what comes until its requests are answered."""
        try:
            try:
                why = await self._exchange(post)
            except RemoteError as fault:
                why = str(fault)
            if why and not self._lost.is_set() and (not post.requests or self._is_open(post)):
                self._say(f"the server {why}")
            if why or not self._endpoint:
                await self._refuse(post.requests, why or "ended the exchange without an answer")
        finally:
            for key in post.requests:
                if not self._endpoint:
                    self._pending.pop(key, None)
            post.sent.set()
            post.settled.set()
            post.answered.set()
            self._posts.discard(post)
            self._progress.set()

    async def _refuse(self, keys: Iterable[Key], why: str) -> None:
        """PostAnswer those of these requests that are still open with an error of ours."""
        for key in tuple(keys):
            if (post := self._pending.pop(key, None)) is not None:
                await self._out.write(own_error(post.requests[key], f"the server {why}"))

    async def _exchange(self, post: Post) -> str:
        """Send a POST, and pass on the answers. Return what is wrong, as a clause; empty if nothing is.

        Raises:
            RemoteError: the server cannot be reached, or cuts the exchange short.
        """
        cursor = StreamCursor()
        headers, had_session = self._headers_of(post.message), bool(self._session_id)
        sent = self._server.exchange("POST", headers, post.raw, url=self._endpoint, on_sent=post.sent.set)
        async with sent as response:
            is_handshake = self._initialize in post.requests and not self._endpoint
            # Some servers name a session in a refusal, too; that session does not exist.
            if is_handshake and response.status < 300:
                self._session_id = response.header(SESSION_ID)
            if not response.is_stream:
                body = await response.body()
                post.settled.set()
                if response.status == 404 and had_session:
                    return self._lose("has ended the session (HTTP 404)")
                if await self._pass_body(post, response.status, body):
                    return ""
                why = _failure(response.status, body)
                if response.status not in _OLD_TRANSPORT or not is_handshake:
                    return why
            else:
                post.settled.set()
                await self._pass_events(response, cursor)
                why = ""
        if why and await self._fall_back():
            return await self._exchange(post)
        if why or not self._is_open(post):
            return why
        return await self._resume(post, cursor)

    def _headers_of(self, message: Message | None = None) -> list[tuple[str, str]]:
        return required_headers(message, self._session_id, self._version, self._mirrors)

    async def _pass_body(self, post: Post, status: int, body: bytes) -> bool:
        """Pass on a body if it is for the client. Return whether it was, or nothing is missing without it."""
        if not body.strip() or self._endpoint:
            return status < 300 and (bool(self._endpoint) or not post.requests)
        message = parse(body)
        is_message = not isinstance(message, Malformed)
        answers_post = isinstance(post.message, Malformed) or any(
            key in self._pending for key in answers_in(message)
        )
        if is_message and (status < 300 or answers_post):
            await self._pass_on(body, message)
            return True
        return status < 300 and not post.requests

    async def _pass_events(self, response: HttpResponse, cursor: StreamCursor) -> None:
        """Pass on the events of a stream to its end. A stream that is cut may be resumed, like one that was
        closed.

        Raises:
            TooLongError: an event is too long. It would be when the stream is resumed, too.
        """
        try:
            async for block in response.events():
                cursor.pass_over(block.id, block.retry)
                if block.data and block.event in (None, "message"):
                    await self._pass_on(block.data, parse(block.data))
        except TooLongError:
            raise
        except RemoteError:
            return

    async def _pass_on(self, raw: bytes, message: Message) -> None:
        """Write a message of the server to the client."""
        self._mirrors.update(listed_mirrors(raw))
        for single in singles(message):
            if isinstance(single, Response) and (type(single.id), single.id) == self._initialize:
                version = member(single.result, "protocolVersion")
                self._version = version if isinstance(version, str) else ""
        await self._out.write(as_line(raw))
        for key in answers_in(message):
            post = self._pending.pop(key, None)
            if post is not None and not self._is_open(post):
                post.answered.set()
        self._progress.set()

    def _is_open(self, post: Post) -> bool:
        """Whether a request of ``post`` is not answered yet."""
        return any(key in self._pending for key in post.requests)

    async def _resume(self, post: Post, cursor: StreamCursor) -> str:
        """Resume the stream of a POST until its requests are answered. Return why they are not."""
        if not cursor.last_id or post.is_stateless:
            return "ended the stream without an answer"
        while cursor.can_resume:
            await asyncio.sleep(cursor.begin_attempt())
            try:
                async with self._server.exchange("GET", [*self._headers_of(), *cursor.headers]) as response:
                    if response.status == 404:
                        return self._lose("has ended the session (HTTP 404)")
                    if not response.is_stream:
                        return f"ended the stream, and answered HTTP {response.status} when it was resumed"
                    await self._pass_events(response, cursor)
            except TooLongError as fault:
                return str(fault)
            except RemoteError:
                pass  # the next attempt counts
            if not self._is_open(post):
                return ""
        return f"ended the stream without an answer, and did not go on with it {MOST_IN_VAIN} times"

    async def _listen(self) -> None:
        """Read the stream for messages that belong to no request, and open it again when it ends."""
        cursor = StreamCursor()
        while True:
            try:
                async with self._server.exchange("GET", [*self._headers_of(), *cursor.headers]) as response:
                    if not response.is_stream:
                        return  # the server has no such stream (405), or the next POST says what is wrong
                    await self._pass_events(response, cursor)
            except TooLongError as fault:
                self._say(f"the server {fault}; its stream for other messages is not read any more")
                return
            except RemoteError:
                pass  # it is opened again
            await asyncio.sleep(cursor.begin_attempt(endless=True))

    # HTTP+SSE

    async def _fall_back(self) -> bool:
        """Switch to HTTP+SSE if a GET opens a stream of that transport. Return whether it does."""
        self._stream = asyncio.create_task(self._read_old_stream())
        named = asyncio.create_task(_wait(self._has_endpoint))
        await asyncio.wait([self._stream, named], timeout=_ENDPOINT_S, return_when=asyncio.FIRST_COMPLETED)
        await _cancel([named])
        if not self._endpoint:
            await _cancel([self._stream])
            self._stream = None
        return bool(self._endpoint)

    async def _read_old_stream(self) -> None:
        """Read the stream on which a server of HTTP+SSE sends all messages."""
        why = "has ended the stream of the session"
        try:
            async with self._server.exchange("GET", self._headers_of()) as response:
                if not response.is_stream:
                    return
                async for block in response.events():
                    if block.event == "endpoint" and block.data and not self._endpoint:
                        self._endpoint = self._server.resolve(block.data)
                        self._has_endpoint.set()
                    elif block.data and self._endpoint and block.event in (None, "message"):
                        await self._pass_on(block.data, parse(block.data))
        except RemoteError as fault:
            why = str(fault)
        if self._endpoint:
            self._lose(why)

    # The end

    def _lose(self, why: str) -> str:
        """End the session, because the server has ended it. Return ``why``."""
        if not self._lost.is_set():
            self._lost.set()
            self._say(f"the server {why}; start again for a new session")
            self._lost_because = why
        return why

    async def _close(self) -> None:
        """End every exchange, and the session."""
        tasks = [post.task for post in self._posts if post.task is not None]
        if self._lost.is_set():
            await self._refuse(self._pending, self._lost_because)
        await _cancel([*tasks, *([self._stream] if self._stream else [])])
        if self._session_id and not self._lost.is_set():
            with suppress(RemoteError, TimeoutError):
                async with asyncio.timeout(_CLOSE_S):
                    async with self._server.exchange("DELETE", self._headers_of()) as response:
                        await response.body()
        self._out.close()
        await self._out.closed.wait()
        await self._server.close()


def _failure(status: int, body: bytes) -> str:
    """Return what is wrong with a response that is not for the client, as a clause."""
    if status == 401:
        return "wants authorization (HTTP 401); give it with --header 'Authorization: Bearer ${TOKEN}'"
    message = parse(body)
    error = message.error if isinstance(message, ErrorResponse) else None
    text = member(error, "message")
    said = f": {text[:_SHOWN_CHARACTERS]}" if isinstance(text, str) else ""
    return f"answered HTTP {status}{said}" if status >= 300 else f"answered HTTP {status} without a message"


async def _cancel(tasks: "Iterable[asyncio.Task[None]]") -> None:
    """Cancel tasks, and wait until they have ended."""
    waiting = list(tasks)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def _wait(event: asyncio.Event) -> None:
    await event.wait()
