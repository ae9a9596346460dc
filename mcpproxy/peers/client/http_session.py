"""A session with a server over HTTP, from the first POST to the DELETE: Streamable HTTP or HTTP+SSE.

A session knows its id, its revision and the headers of its requests. It reads JSON bodies and event streams,
resumes a stream that ends before the answer, keeps a stream open for messages that answer no POST, and uses
HTTP+SSE of 2024-11-05 with a server that supports only that. Its user handles the messages in a subclass of
``SessionExchange``.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports, sections Streamable HTTP,
and Backwards Compatibility.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Generic, Self, TypeVar

from mcpproxy.peers.client.background_tasks import BackgroundTasks, cancel_tasks
from mcpproxy.peers.client.remote_server import Headers, HttpResponse, RemoteError, RemoteServer, TooLongError
from mcpproxy.peers.client.stream_cursor import StreamCursor
from mcpproxy.protocol.header_names import SESSION_ID
from mcpproxy.protocol.jsonrpc import Message, Request, Response, parse
from mcpproxy.protocol.message_parts import Key, answers_in, key_of, singles, text_member
from mcpproxy.protocol.mirrors import Mirrors, listed_mirrors
from mcpproxy.protocol.request_headers import required_headers, stateless_version
from mcpproxy.record.framing.sse import SseBlock

OLD_TRANSPORT: Final = (400, 404, 405)
"""The statuses with which a server that has only HTTP+SSE may answer a POST to the URL of its stream."""

MESSAGE_EVENTS: Final = (None, "message")
"""The names of the events whose data is a message; ``None`` is an event without a name."""


@dataclass(eq=False, kw_only=True)
class SessionExchange:
    """A request of a session over HTTP, and its response so far. A subclass handles what arrives.

    ``message`` is the posted message, if any, and ``unanswered`` has the ids of the requests in it that have
    no answer yet. ``status`` and ``is_stream`` are those of the last response, 0 and false before its head
    arrives. ``failure`` says why the last response is incomplete or missing. A resumed stream continues the
    same exchange for its user; ``cursor`` says from where, and ``resumptions`` counts the attempts.
    """

    message: Message | None = None
    unanswered: set[Key] = field(default_factory=set[Key])
    kept_headers: Sequence[tuple[str, str]] = ()
    """Headers that its resumptions have, besides those that the protocol requires."""
    opens_session: bool = False
    """Whether ``initialize`` is posted."""
    ended_session: bool = False
    """Whether the last response says that the session is over: 404 to a request with its id."""
    is_refused: bool = False
    """Whether an error without an id came, which answers the whole POST."""
    status: int = 0
    is_stream: bool = False
    failure: RemoteError | None = None
    cursor: StreamCursor = field(default_factory=StreamCursor)
    resumptions: int = 0

    @property
    def can_resume(self) -> bool:
        """Whether an answer is missing that may come when the stream is resumed, and ``cursor`` allows that.

        A stream that was cut off is resumed like one that was closed. A resumption that did not reach the
        server is tried again. A response that is not a stream ends the attempts; so does one that is too
        long, or an error without an id. Stateless requests have no resumption.
        """
        is_open = self.is_stream or self.failure is not None
        return (
            bool(self.unanswered)
            and is_open
            and self.cursor.can_resume
            and not (self.is_refused or self.is_stateless or isinstance(self.failure, TooLongError))
        )

    @property
    def is_stateless(self) -> bool:
        """Whether a request of a stateless revision is posted."""
        return isinstance(self.message, Request) and bool(stateless_version(self.message))

    def begin_resumption(self) -> Self:
        """Return the exchange in which the stream is resumed."""
        return self

    def on_sent(self) -> None:
        """Handle that the request has been written."""

    async def on_head(self, response: HttpResponse) -> None:
        """Handle the head of a response."""

    async def on_message(self, raw: bytes, message: Message, block: SseBlock | None) -> None:
        """Handle a body, or the data of the event ``block``."""

    def on_answered(self) -> None:
        """Handle that all requests in the posted message have been answered."""


ExchangeT = TypeVar("ExchangeT", bound=SessionExchange)


class ClientSession(Generic[ExchangeT]):
    """A session with ``server``. Exchanges in the background run as ``tasks``, which the owner cancels.

    ``session_id`` and ``version``, the revision, are empty until the server has named them. ``is_http_sse``
    says that HTTP+SSE is used, or is being tried.

    ``open_requests`` maps each unanswered request to its exchange; the answer may come on any stream of the
    session. ``endpoint`` is the URL to which messages are sent with HTTP+SSE; it is empty with Streamable
    HTTP, and until the server has named it.
    """

    def __init__(self, server: RemoteServer, tasks: BackgroundTasks | None = None) -> None:
        self.tasks: Final = tasks or BackgroundTasks()
        self.session_id = ""
        self.version = ""
        self.mirrors: dict[str, Mirrors] = {}
        """Name of a listed tool -> the arguments that a call of it repeats in headers."""
        self.is_http_sse = False
        self.endpoint = ""
        self.has_endpoint: Final = asyncio.Event()
        self.open_requests: Final[dict[Key, ExchangeT]] = {}
        self.stream_task: asyncio.Task[None] | None = None
        """Reads the stream of the GET for messages that answer no POST."""
        self._remote: Final = server
        self._initialize: Key | None = None

    def headers_for(self, message: Message | None = None) -> list[tuple[str, str]]:
        """Return the headers for a POST of ``message``; without it, those for a request without a body."""
        return required_headers(message, self.session_id, self.version, self.mirrors)

    async def run_post(self, exchange: ExchangeT, raw: bytes, headers: Headers | None = None) -> None:
        """Post a message, by default with the headers that it needs, and read the response to its end.

        If the stream of the response ends before the answers, it is resumed. With HTTP+SSE the answers do not
        come here, but on the stream of the session. An error is left in the ``failure`` of the last exchange:
        ``exchange``, or what its ``begin_resumption`` returned. ``raw`` is parsed if ``exchange.message`` is
        ``None``.
        """
        message = exchange.message = parse(raw) if exchange.message is None else exchange.message
        for single in singles(message):
            if isinstance(single, Request) and (key := key_of(single)) is not None:
                exchange.unanswered.add(key)
                self.open_requests[key] = exchange
                if single.method == "initialize":
                    self._initialize, exchange.opens_session = key, True
        keys = tuple(exchange.unanswered)
        try:
            await self.run(exchange, "POST", self.headers_for(message) if headers is None else headers, raw)
            latest = exchange
            while not self.endpoint and latest.can_resume:
                await asyncio.sleep(latest.cursor.begin_attempt())
                latest = latest.begin_resumption()
                latest.resumptions += 1
                fields = (*self.headers_for(), *latest.kept_headers, *latest.cursor.headers)
                await self.run(latest, "GET", fields)
        finally:
            for key in keys:
                if not self.endpoint and self.open_requests.get(key) is exchange:
                    del self.open_requests[key]

    async def listen(self, exchange: ExchangeT) -> None:
        """Read the stream for messages that belong to no request, and open it again whenever it ends.

        Return if the server has no such stream, or sends an event that is too long.
        """
        while True:
            await self.run(exchange, "GET", [*self.headers_for(), *exchange.cursor.headers])
            if isinstance(exchange.failure, TooLongError) or not (exchange.is_stream or exchange.failure):
                return
            await asyncio.sleep(exchange.cursor.begin_attempt(endless=True))
            exchange = exchange.begin_resumption()

    async def run(self, exchange: ExchangeT, method: str, headers: Headers, body: bytes = b"") -> None:
        """Send one request, and read its response to the end. An error is left in ``exchange.failure``."""
        exchange.status, exchange.is_stream, exchange.failure = 0, False, None
        url = self.endpoint if method == "POST" else ""
        sent = self._remote.exchange(method, headers, body, url=url, on_sent=exchange.on_sent)
        try:
            async with sent as response:
                self.note_head(exchange, response)
                await exchange.on_head(response)
                if response.is_stream:
                    async for block in response.events():
                        exchange.cursor.note_event(block.id, block.retry)
                        if block.data:
                            await self._receive_event(exchange, block.data, block)
                elif raw := await response.body():
                    message = parse(raw)
                    # With HTTP+SSE a body is no message; nor is the body of a 404 that ends the session.
                    is_answer = method == "POST" and not (self.endpoint or exchange.ended_session)
                    await self._receive(exchange, raw, message, None, is_answer=is_answer)
        except RemoteError as fault:
            exchange.failure = fault

    async def _receive_event(self, exchange: ExchangeT, data: bytes, block: SseBlock) -> None:
        if block.event == "endpoint":
            self.use_endpoint(data)
        elif self.endpoint or not self.is_http_sse:  # else it is a stream of another transport
            is_answer = block.event in MESSAGE_EVENTS
            await self._receive(exchange, data, parse(data), block, is_answer=is_answer)

    async def _receive(
        self, exchange: ExchangeT, raw: bytes, message: Message, block: SseBlock | None, *, is_answer: bool
    ) -> None:
        """Pass on a message; with ``is_answer``, note what it says of the session, and what it answers."""
        if is_answer:
            self._note_settings(raw, message)
        await exchange.on_message(raw, message, block)
        if is_answer:
            self.note_answers(exchange, message)

    # What the server says about the session

    def note_head(self, exchange: ExchangeT, response: HttpResponse) -> None:
        """Note the head of a response.

        A session gets its id with the answer to ``initialize``. Some servers name one in a refusal, too; that
        session does not exist.
        """
        exchange.status, exchange.is_stream = response.status, response.is_stream
        exchange.ended_session = response.status == 404 and bool(self.session_id)
        begins = exchange.opens_session and not (exchange.resumptions or self.endpoint)
        if begins and response.status < 300:
            self.session_id = response.header(SESSION_ID)

    def _note_settings(self, raw: bytes, message: Message) -> None:
        """Note the revision that the server has chosen, and the arguments that tools require in headers."""
        self.mirrors.update(listed_mirrors(raw))
        for single in singles(message) if self._initialize is not None else ():
            if isinstance(single, Response) and key_of(single) == self._initialize:
                self._initialize = None  # a later request may have this id, too
                self.version = text_member(single.result, "protocolVersion") or ""

    def note_answers(self, exchange: ExchangeT, message: Message) -> None:
        """Note which requests are answered by a message that came in ``exchange``."""
        for answer in answers_in(message):
            if (key := key_of(answer)) is None:
                exchange.is_refused = True
                continue
            for waiting in {exchange, self.open_requests.pop(key, exchange)}:
                if key in waiting.unanswered:
                    waiting.unanswered.discard(key)
                    if not waiting.unanswered:
                        waiting.on_answered()

    # HTTP+SSE

    async def switch_to_http_sse(
        self, stream: ExchangeT, limit_s: float, on_end: Callable[[str], object]
    ) -> bool:
        """Use HTTP+SSE if a GET opens a stream that names an endpoint within ``limit_s`` seconds.

        Return whether it is used. ``stream`` is the exchange of the GET. The end of that stream ends the
        session: then ``on_end`` is called with the reason, as a clause.
        """
        self.is_http_sse = True
        self.stream_task = self.tasks.start(self._read_old_stream(stream, on_end))
        named = asyncio.create_task(self.has_endpoint.wait())
        await asyncio.wait((self.stream_task, named), timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        named.cancel()
        if not self.endpoint:
            await self.close_stream()
        return self.is_http_sse

    def use_endpoint(self, reference: bytes) -> None:
        """Post to this URL from now on, if it is the first one that the server of HTTP+SSE names.

        The names of this machine count as one host; requests go to the name that the user gave.

        Raises:
            RemoteError: nothing may be sent there.
        """
        if self.is_http_sse and not self.endpoint:
            self.endpoint = self._remote.resolve(reference, loopback_is_one=True)
            self.has_endpoint.set()

    async def _read_old_stream(self, stream: ExchangeT, on_end: Callable[[str], object]) -> None:
        await self.run(stream, "GET", self.headers_for())
        if self.endpoint:
            on_end(str(stream.failure or "has ended the stream of the session"))

    # The end

    async def close_stream(self) -> None:
        """Close the stream of the GET, and stop using HTTP+SSE."""
        self.is_http_sse, self.endpoint = False, ""
        self.has_endpoint.clear()
        task, self.stream_task = self.stream_task, None
        if task is not None:
            await cancel_tasks(task)

    async def end(self, exchange: ExchangeT, limit_s: float) -> None:
        """Close the stream, and send DELETE if the session has an id; the response does not matter.

        The DELETE may take ``limit_s`` seconds.
        """
        await self.close_stream()
        if self.session_id:
            with suppress(TimeoutError):
                async with asyncio.timeout(limit_s):
                    await self.run(exchange, "DELETE", self.headers_for())
