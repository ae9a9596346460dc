"""``bridge URL``: a client on stdio, and a server over Streamable HTTP, or over HTTP+SSE if it has only that.

Each line of the client becomes the body of a POST, and each message of the server becomes a line. If a
request gets no answer over HTTP, because the server is gone or sends something else, the bridge answers it
with an error, so that no client waits in vain.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

from mcpproxy.peers.bridge.leg import Say
from mcpproxy.peers.bridge.message_bytes import as_line, own_error, requests_in
from mcpproxy.peers.bridge.pipes import LineWriter
from mcpproxy.peers.client.background_tasks import cancel_tasks
from mcpproxy.peers.client.http_session import MESSAGE_EVENTS, OLD_TRANSPORT, ClientSession, SessionExchange
from mcpproxy.peers.client.refusals import refusal, without_message
from mcpproxy.peers.client.remote_server import (
    ForeignTargetError,
    HttpResponse,
    RemoteServer,
    TooLongError,
)
from mcpproxy.peers.client.stream_cursor import MOST_IN_VAIN
from mcpproxy.protocol.jsonrpc import Malformed, Message, Notification, Request, parse
from mcpproxy.protocol.message_parts import answered_ids, as_key, member, singles
from mcpproxy.protocol.methods import LISTEN
from mcpproxy.record.framing.sse import SseBlock

_NOTIFIED_S: Final = 2.0
"""How long the next line waits for the response to a notification, which may affect the next line."""

_CLOSE_S: Final = 2.0
"""How long the DELETE at the end of a session may take."""

_ENDPOINT_S: Final = 5.0
"""How long an HTTP+SSE server may take to name its endpoint."""


class BridgedExchange(SessionExchange):
    """The exchange that carries a line of the client; without a line, a GET or DELETE.

    ``requests`` are the ids of the requests in the line, each with its bytes, and ``methods`` are the methods
    in it. ``sent`` is set when the body is written, ``settled`` when the response has its body or begins a
    stream, ``answered`` when every request is answered. All are set at the end of the exchange, too.
    ``is_passed`` says whether the body of the response was passed on to the client, and ``page`` a body
    that was not. ``location`` is the URL that the response redirects to.
    """

    def __init__(self, bridge: "RemoteBridge", raw: bytes = b"") -> None:
        super().__init__(message=parse(raw) if raw else None)
        self.raw: Final = raw
        self.requests: Final = requests_in(raw, self.message) if self.message else {}
        self.methods: Final = {
            single.method
            for single in (singles(self.message) if self.message else ())
            if isinstance(single, Request | Notification)
        }
        self.sent: Final = asyncio.Event()
        self.settled: Final = asyncio.Event()
        self.answered: Final = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self.began_stream = False
        self.is_passed = False
        self.page = b""
        self.location = ""
        self._bridge: Final = bridge

    def on_sent(self) -> None:
        """Let the next line be sent."""
        self.sent.set()

    async def on_head(self, response: HttpResponse) -> None:
        """Note the head of the response. If it begins a stream, the line after a notification may be sent."""
        self.location = response.header("location")
        if response.is_stream:
            self.began_stream = True
            self.settled.set()

    async def on_message(self, raw: bytes, message: Message, block: SseBlock | None) -> None:
        """Pass on to the bridge the body of a POST's response, or the data of an event that is a message."""
        if block is None:
            self.settled.set()
            if self.raw and not self.resumptions:
                await self._bridge.pass_body(self, raw, message)
        elif block.event in MESSAGE_EVENTS:
            await self._bridge.pass_message(raw)

    def on_answered(self) -> None:
        """Let the line after ``initialize`` be sent."""
        self.answered.set()
        self._bridge.progress.set()

    def end(self) -> None:
        """Set every event, because the exchange is over."""
        for event in (self.sent, self.settled, self.answered, self._bridge.progress):
            event.set()


class RemoteBridge:
    """Carries the messages of one client to ``server`` and back. ``out`` takes the lines for the client."""

    def __init__(self, server: RemoteServer, out: LineWriter, say: Say) -> None:
        self._server: Final = server
        self._out: Final = out
        self._say: Final = say
        self._session: Final[ClientSession[BridgedExchange]] = ClientSession(server)
        self._posts: Final[set[BridgedExchange]] = set()
        self.progress: Final = asyncio.Event()
        """Set when a request is answered or an exchange is over."""
        self._lost: Final = asyncio.Event()
        self._lost_because = ""

    async def run(self, lines: AsyncIterator[bytes]) -> int:
        """Carry messages until the client has closed its end or the session is lost.

        Return the exit code: 1 if the session was lost, else 0. After the end of ``lines``, open requests are
        still answered, except subscriptions.
        """
        read_task = asyncio.create_task(self._read_lines(lines))
        end_tasks = [asyncio.create_task(_wait_for(end)) for end in (self._lost, self._out.closed)]
        try:
            await asyncio.wait([read_task, *end_tasks], return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_tasks(read_task, *end_tasks)
            await self._close_all()
        return int(self._lost.is_set())

    async def _read_lines(self, lines: AsyncIterator[bytes]) -> None:
        async for line in lines:
            if line.strip():
                await self._send_line(BridgedExchange(self, line))
        while self._has_open():
            self.progress.clear()
            await self.progress.wait()

    def _has_open(self) -> bool:
        """Whether a message of the client is on its way, or a request other than a subscription is open."""
        with_open_requests = self._session.open_requests.values()
        return any(LISTEN not in post.methods for post in with_open_requests) or any(
            not post.settled.is_set() for post in self._posts
        )

    async def _send_line(self, post: BridgedExchange) -> None:
        """Send a line, and return when the next one may be sent."""
        if self._close_cancelled(post.message):
            return
        self._posts.add(post)
        post.task = self._session.tasks.start(self._carry_post(post))
        if "initialize" in post.methods:
            await post.answered.wait()  # the next line needs the session id and the revision
        elif post.requests:
            await post.sent.wait()
        else:
            with suppress(TimeoutError):
                async with asyncio.timeout(_NOTIFIED_S):
                    await post.settled.wait()
            if "notifications/initialized" in post.methods and self._session.stream_task is None:
                self._session.stream_task = self._session.tasks.start(self._listen())

    def _close_cancelled(self, message: Message | None) -> bool:
        """If a stateless client cancels an open request, close the response stream, which means the same.

        Return whether that was done, so that the message need not be sent.
        """
        if not isinstance(message, Notification) or message.method != "notifications/cancelled":
            return False
        key = as_key(member(message.params, "requestId"))
        post = self._session.open_requests.get(key) if key is not None else None
        if post is None or post.task is None or not post.is_stateless:
            return False
        post.task.cancel()
        return True

    async def _carry_post(self, post: BridgedExchange) -> None:
        """Send a line, and pass on messages until its requests are answered, by the bridge if need be."""
        try:
            why = await self._run_post(post)
            if why and not self._lost.is_set() and (not post.requests or post.unanswered):
                self._say(f"the server {why}")
            if why or not self._session.endpoint:
                await self._refuse_requests(post, why or "ended the exchange without an answer")
        finally:
            self._posts.discard(post)
            post.end()

    async def _refuse_requests(self, post: BridgedExchange, why: str) -> None:
        """Answer the requests of a POST that are still open with our own error."""
        for key in tuple(post.unanswered):
            post.unanswered.discard(key)
            self._session.open_requests.pop(key, None)
            await self._out.write(own_error(post.requests[key], f"the server {why}"))

    async def _run_post(self, post: BridgedExchange) -> str:
        """Send a POST, and pass on the answers; return what is wrong, as a clause, empty if nothing is."""
        session = self._session
        await session.run_post(post, post.raw)
        if post.ended_session:
            return self._lose_session("has ended the session (HTTP 404)")
        if isinstance(post.failure, TooLongError) or (post.failure and not post.began_stream):
            return str(post.failure)
        if post.resumptions and post.unanswered:
            if post.status and not post.is_stream:
                return f"ended the stream, and answered HTTP {post.status} when it was resumed"
            return f"ended the stream without an answer, and did not go on with it {MOST_IN_VAIN} times"
        if post.began_stream:
            return "ended the stream without an answer" if post.unanswered else ""
        if post.is_passed:
            return ""
        if post.status < 300 and (session.endpoint or not post.requests):
            return ""
        if post.status in OLD_TRANSPORT and post.opens_session and not session.endpoint:
            stream = BridgedExchange(self)
            if await session.switch_to_http_sse(stream, _ENDPOINT_S, self._lose_session):
                return await self._run_post(post)
            if isinstance(stream.failure, ForeignTargetError):
                return str(stream.failure)
        return self._failure(post)

    def _failure(self, post: BridgedExchange) -> str:
        """Return what is wrong with a response that is not for the client, as a clause."""
        status, server = post.status, self._server
        if status == 401:
            return "wants authorization (HTTP 401); give it with --header 'Authorization: Bearer ${TOKEN}'"
        if status < 300:
            return f"answered HTTP {without_message(status, post.page, server.headers)}"
        return f"answered HTTP {refusal(server.url, status, post.location, post.page, server.headers)}"

    async def pass_body(self, post: BridgedExchange, raw: bytes, message: Message) -> None:
        """Pass on the body of a response if it is for the client.

        It is not if it is not a message, if it refuses something other than the POST, such as its session, or
        with HTTP+SSE, where the answers come on the stream of the session.
        """
        session = self._session
        answers_post = isinstance(post.message, Malformed) or any(
            key in session.open_requests for key in answered_ids(message)
        )
        is_answer = post.status < 300 or (answers_post and not post.ended_session)
        if session.endpoint or isinstance(message, Malformed) or not is_answer:
            post.page = raw
        else:
            post.is_passed = True
            await self.pass_message(raw)

    async def pass_message(self, raw: bytes) -> None:
        """Write a message of the server to the client."""
        await self._out.write(as_line(raw))

    async def _listen(self) -> None:
        """Read the GET stream, on which the server sends messages that belong to no request."""
        stream = BridgedExchange(self)
        await self._session.listen(stream)
        if isinstance(stream.failure, TooLongError):
            self._say(f"the server {stream.failure}; its stream for other messages is not read any more")

    # The end

    def _lose_session(self, why: str) -> str:
        """Let the bridge end, because the server has ended the session; return ``why``, a clause."""
        if not self._lost.is_set():
            self._lost.set()
            self._say(f"the server {why}; start again for a new session")
            self._lost_because = why
        return why

    async def _close_all(self) -> None:
        """End every exchange and the session, and close both connections."""
        if self._lost.is_set():
            for post in set(self._session.open_requests.values()):
                await self._refuse_requests(post, self._lost_because)
            self._session.session_id = ""
        await self._session.tasks.cancel()
        await self._session.end(BridgedExchange(self), _CLOSE_S)
        self._out.close()
        await self._out.closed.wait()
        await self._server.close()


async def _wait_for(event: asyncio.Event) -> None:
    await event.wait()
