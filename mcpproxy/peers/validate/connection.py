"""The JSON-RPC layer of our client: requests and their responses, notifications, and requests of the server.

A request waits for the response with its id. Requests of the server are answered automatically, as by a host
without a user.
"""

import asyncio
import json
from dataclasses import replace
from typing import Final

from mcpproxy import __version__
from mcpproxy.judge.session.frame import CLIENT, Frame
from mcpproxy.judge.session.unanswered_requests import UnansweredRequests
from mcpproxy.peers.client.background_tasks import BackgroundTasks
from mcpproxy.peers.validate.answers import Answer, Pending
from mcpproxy.peers.validate.defaults import default_capabilities, default_replies
from mcpproxy.peers.validate.errors import (
    GoneError,
    HttpStatusError,
    IdMismatchError,
    MalformedAnswerError,
    TimedOutError,
)
from mcpproxy.peers.validate.transports.wire import FrameReceived, RequestEnded, ServerLost, Wire, WireEvent
from mcpproxy.protocol.error_message import METHOD_NOT_FOUND, error_message
from mcpproxy.protocol.jsonrpc import (
    ABSENT,
    JSON,
    Absent,
    ErrorResponse,
    JSONObject,
    Malformed,
    Request,
    RequestId,
    Response,
    Single,
    parse,
)
from mcpproxy.protocol.message_parts import singles
from mcpproxy.protocol.meta_keys import CAPABILITIES_KEY, CLIENT_INFO_KEY, VERSION_KEY
from mcpproxy.protocol.revisions import REVISIONS, STATELESS
from mcpproxy.protocol.wording import shown

TIMEOUT_S: Final = 10.0
"""How long a server may take to answer, or to read a message."""
START_S: Final = 60.0
"""How long a process may take to start and to answer its first request."""


class RpcConnection:
    """A JSON-RPC connection over the transport ``wire``.

    ``timeout_s`` is the default time limit for a response, and the limit for the server to read a message.
    The first response may take ``start_s`` if that is longer, because a process that was just started may
    still be loading.

    ``revision`` is the requested revision until the server has chosen one. ``received`` are all frames of the
    server; ``unsolicited`` are the frames with a message that answers no open request, such as a
    notification, a request or a malformed line. ``server_requests`` are the server's requests. ``replies``
    are the results for them by method; a request with any other method gets the error -32601.
    """

    def __init__(
        self,
        wire: Wire,
        revision: str = REVISIONS[-1],
        timeout_s: float = TIMEOUT_S,
        start_s: float = 0,
    ) -> None:
        self.wire: Final = wire
        self.revision = revision
        self.timeout_s: Final = timeout_s
        self.start_s: Final = start_s
        self.capabilities: JSONObject = default_capabilities(revision)
        self.info: JSONObject = {"name": "mcpproxy-validate", "version": __version__}
        self.server: JSONObject = {}
        """The result of ``initialize`` or of ``server/discover``."""
        self.received: Final[list[Frame]] = []
        self.unsolicited: Final[list[Frame]] = []
        self.server_requests: Final[list[Request]] = []
        self.replies: dict[str, JSON] = default_replies()
        self.is_initialized = False
        self.has_answered = False
        """Whether the server has answered a request."""
        self.gone = ""
        """Why the server is gone, as a clause; empty while it is running."""
        self._pending: Final[UnansweredRequests[Pending]] = UnansweredRequests()
        self._used_ids: Final[set[RequestId]] = set()
        self._next_id = 0
        self._unreadable_sent = 0
        """How many of our malformed messages the server has not refused yet."""
        self._refusals: Final[set[int]] = set()
        """The numbers of the frames that refuse malformed messages, under an unknown id or none."""
        self._tasks: Final = BackgroundTasks()
        self._has_news: Final = asyncio.Condition()
        wire.on_event = self._on_event

    @property
    def is_stateless(self) -> bool:
        """Whether the revision has no handshake; then every request names it."""
        return self.revision in STATELESS

    @property
    def ping_method(self) -> str:
        """A method that every server answers: ``ping``, or ``server/discover`` if ``is_stateless``."""
        return "server/discover" if self.is_stateless else "ping"

    async def open(self) -> None:
        """Start the server; over HTTP, open only the stream of HTTP+SSE, if the server needs it.

        Raises:
            CouldNotStartError: the server cannot be started.
            ValidateError: a server of HTTP+SSE opens no stream.
        """
        await self.wire.open()

    # Sending

    def new_id(self) -> int:
        """Return an unused id."""
        self._next_id += 1
        return self._next_id

    def request_object(
        self, method: str, params: "JSON | Absent" = ABSENT, id: "RequestId | None" = None
    ) -> JSONObject:
        """Return a request as JSON. In a stateless revision its params contain the required ``_meta``.

        Params that are not an object stay as they are.
        """
        message: JSONObject = {"jsonrpc": "2.0", "id": self.new_id() if id is None else id, "method": method}
        if self.is_stateless and isinstance(params, Absent | dict):
            members = {} if isinstance(params, Absent) else params
            meta = members.get("_meta", {})
            params = {**members, "_meta": {**self.meta(), **(meta if isinstance(meta, dict) else {})}}
        if not isinstance(params, Absent):
            message["params"] = params
        return message

    def meta(self) -> JSONObject:
        """Return the ``_meta`` that a stateless revision requires in every request."""
        return {
            VERSION_KEY: self.revision,
            CLIENT_INFO_KEY: self.info,
            CAPABILITIES_KEY: self.capabilities,
        }

    async def request(
        self,
        method: str,
        params: "JSON | Absent" = ABSENT,
        *,
        id: "RequestId | None" = None,
        timeout_s: float | None = None,
    ) -> Answer:
        """Send a request and wait for its response, which may be an error.

        ``timeout_s`` is by default that of the connection.

        Raises:
            TimedOutError: there was no response in time, or the server does not read its input.
            HttpStatusError: there was only an HTTP status.
            GoneError: the server is gone, or the HTTP exchange ended without a response.
            IdMismatchError, MalformedAnswerError: the response has another id or is malformed.
        """
        pending = await self.begin(method, params, id=id)
        return await self.wait_for_answer(pending, timeout_s)

    async def begin(
        self, method: str, params: "JSON | Absent" = ABSENT, *, id: "RequestId | None" = None
    ) -> Pending:
        """Send a request without waiting for its response.

        Raises:
            GoneError: the server is gone.
            TimedOutError: the server does not read its input.
        """
        id = self.new_id() if id is None else id
        return await self.begin_raw(dumps(self.request_object(method, params, id)), id, method)

    async def begin_raw(self, raw: bytes, id: RequestId, method: str = "") -> Pending:
        """Send a request given as bytes; ``id`` is the id in it.

        Raises:
            GoneError: the server is gone.
            TimedOutError: the server does not read its input.
        """
        pending = self.expect(id, method)
        pending.seq = await self._send(raw)
        return pending

    def expect(self, id: RequestId, method: str = "") -> Pending:
        """Expect a response with ``id`` from now on; the caller sends the request."""
        pending = Pending(id, method, unsolicited_before=len(self.unsolicited))
        self._pending.add(CLIENT, id, pending)
        self._used_ids.add(id)
        return pending

    def used_ids(self) -> frozenset[RequestId]:
        """Return the ids of all requests so far."""
        return frozenset(self._used_ids)

    def forget(self, pending: Pending) -> None:
        """Stop waiting for the response."""
        self._pending.take_if(lambda open_request: open_request is pending)

    async def wait_for_answer(self, pending: Pending, timeout_s: float | None = None) -> Answer:
        """Wait for the response to a request.

        Raises:
            As ``request``.
        """
        seconds = self.timeout_s if timeout_s is None else timeout_s
        if not self.has_answered:
            seconds = max(seconds, self.start_s)
        try:
            async with asyncio.timeout(seconds):
                event = await pending.events.get()
        except TimeoutError:
            raise self._no_answer_error(pending, seconds) from None
        finally:
            self.forget(pending)
        if isinstance(event, Answer):
            # A response on another connection can arrive before the frame number of its request is known.
            return event if event.request_frame else replace(event, request_frame=pending.seq)
        if isinstance(event, Frame):
            text = f"the answer to {pending.method} (id {shown(pending.id)}) came under another id"
            raise self._wrong_answer_error(pending) or IdMismatchError(text, (pending.seq, event.seq))
        if isinstance(event, ServerLost):
            raise GoneError(f"no answer to {pending.method}: {event.why}", (pending.seq,), pending.method)
        if refusal := event.refusal:
            text = f"no answer to {pending.method}: HTTP status {refusal.words}"
            raise HttpStatusError(text, (pending.seq,), refusal.status, refusal.advice, refusal.moved_to)
        why = event.why or f"HTTP status {event.status} without an answer in it"
        wrong = self._wrong_answer_error(pending)
        if isinstance(wrong, MalformedAnswerError) and event.explanation:
            raise MalformedAnswerError(f"{wrong} ({event.explanation})", wrong.frames)
        raise wrong or GoneError(f"no answer to {pending.method}: {why}", (pending.seq,), pending.method)

    async def notify(self, method: str, params: "JSON | Absent" = ABSENT) -> int:
        """Send a notification, and return the number of its frame.

        Raises:
            GoneError: the server is gone.
            TimedOutError: the server does not read its input.
        """
        message: JSONObject = {"jsonrpc": "2.0", "method": method}
        if not isinstance(params, Absent):
            message["params"] = params
        return await self._send(dumps(message))

    async def send(self, raw: bytes) -> int:
        """Send any bytes as one message, and return the number of its frame.

        Raises:
            GoneError: the server is gone.
            TimedOutError: the server does not read its input.
        """
        message = parse(raw)
        self._unreadable_sent += isinstance(message, Malformed)
        for single in singles(message):
            if isinstance(single, Request) and single.id is not None:
                self._used_ids.add(single.id)
        return await self._send(raw)

    async def _send(self, raw: bytes) -> int:
        if self.gone:
            raise GoneError(f"the server is gone: {self.gone}")
        try:
            async with asyncio.timeout(self.timeout_s):
                return await self.wire.send(raw)
        except TimeoutError:
            raise TimedOutError(
                f"the server did not read {len(raw):,} bytes within {self.timeout_s:g} s",
                (self.wire.recording.seq,),
            ) from None

    async def next_unsolicited(self, timeout_s: float, after: int = 0) -> Frame | None:
        """Return the unsolicited frame at the index ``after``; ``None`` if it does not arrive in time.

        If the server is gone, this does not wait.
        """
        try:
            async with asyncio.timeout(timeout_s), self._has_news:
                await self._has_news.wait_for(lambda: len(self.unsolicited) > after or bool(self.gone))
        except TimeoutError:
            return None
        return self.unsolicited[after] if len(self.unsolicited) > after else None

    async def close(self) -> None:
        """End the session; on stdio, end the server and every process that it started."""
        await self._tasks.cancel()
        await self.wire.close()

    # Receiving

    def _on_event(self, event: WireEvent) -> None:
        if isinstance(event, ServerLost):
            self.gone = self.gone or event.why
            for pending in self._pending:
                pending.events.put_nowait(event)
        elif isinstance(event, RequestEnded):
            for pending in self._pending:
                if pending.seq == event.seq:
                    pending.events.put_nowait(event)
        else:
            self._on_frame(event)
        self._tasks.start(self._notify_waiters())

    def _on_frame(self, event: FrameReceived) -> None:
        """Process a frame of the server, and note whether it is unsolicited."""
        frame = event.frame
        self.received.append(frame)
        if frame.continues:  # a piece of a line too long to be parsed
            return
        message = frame.message
        is_unsolicited = False
        for single in singles(message):
            is_unsolicited = not self._on_message(single, frame) or is_unsolicited
        if is_unsolicited:
            self.unsolicited.append(frame)

    def _on_message(self, message: Single, frame: Frame) -> bool:
        """Process a message, and return whether it is the response to an open request."""
        match message:
            case Response(id=id) | ErrorResponse(id=id) if isinstance(id, int | str):
                pending = self._pending.find(CLIENT, id)
                if pending is None:
                    if not self._note_refusal_of_unreadable(message, frame):
                        self._pass_to_only_pending(id, frame)
                    return False
                self.has_answered = True
                pending.events.put_nowait(Answer(message, frame, pending.seq))
                return True
            case ErrorResponse():
                self._note_refusal_of_unreadable(message, frame)
                return False
            case Request():
                self.server_requests.append(message)
                self._tasks.start(self._reply(message))
                return False
            case _:
                return False

    def _note_refusal_of_unreadable(self, message: Response | ErrorResponse, frame: Frame) -> bool:
        """Note an error under an unknown id, or none, as the refusal of a malformed message of ours.

        Return whether it is one.
        """
        if not self._unreadable_sent or isinstance(message, Response) or message.id in self._used_ids:
            return False
        self._unreadable_sent -= 1
        self._refusals.add(frame.seq)
        return True

    def _pass_to_only_pending(self, id: RequestId, frame: Frame) -> None:
        """If exactly one request is open, pass it a response whose id no request had."""
        open_requests = list(self._pending)
        if id not in self._used_ids and len(open_requests) == 1:
            open_requests[0].events.put_nowait(frame)

    async def _reply(self, request: Request) -> None:
        """Answer a request of the server."""
        if request.id is None:
            return
        if request.method in self.replies:
            result = self.replies[request.method]
            answer = dumps({"jsonrpc": "2.0", "id": request.id, "result": result})
        else:
            why = f"this client has no {request.method}"
            answer = error_message(METHOD_NOT_FOUND, why, dumps(request.id))
        try:
            await self.wire.send(answer)
        except GoneError:
            return

    async def _notify_waiters(self) -> None:
        async with self._has_news:
            self._has_news.notify_all()

    def _no_answer_error(self, pending: Pending, seconds: float) -> Exception:
        """Return the error for a request that was not answered in time."""
        return self._wrong_answer_error(pending) or TimedOutError(
            f"no answer to {pending.method or 'a request'} within {seconds:g} s",
            (pending.seq,),
            pending.method,
        )

    def _wrong_answer_error(self, pending: Pending) -> Exception | None:
        """Return the error for a frame that came instead of the response, if there is such a frame."""
        for frame in self.unsolicited[pending.unsolicited_before :]:
            if frame.seq in self._refusals:
                continue
            if isinstance(frame.message, Malformed):
                return MalformedAnswerError(
                    f"instead of an answer to {pending.method} came something that is not a message: "
                    f"{frame.message.flaw.value}",
                    (pending.seq, frame.seq),
                )
            if isinstance(frame.message, Response | ErrorResponse):
                text = f"the answer to {pending.method} (id {shown(pending.id)}) has the id"
                is_without_id = not isinstance(frame.message.id, int | str)
                return IdMismatchError(
                    f"{text} {_shown_id(frame.message)}",
                    (pending.seq, frame.seq),
                    is_refusal_without_id=is_without_id and isinstance(frame.message, ErrorResponse),
                )
        return None


def dumps(message: JSON) -> bytes:
    """Return a message as bytes: JSON in UTF-8 on one line."""
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _shown_id(message: Response | ErrorResponse) -> str:
    return "none" if isinstance(message.id, Absent) else shown(message.id)
