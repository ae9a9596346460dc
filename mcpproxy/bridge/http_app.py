"""``bridge --stdio``: the MCP endpoint over Streamable HTTP, before processes of a stdio server.

A request is answered with one JSON body if its answer comes first and soon, and with an event stream if
another message comes before it, or nothing for a while. So a client that has to wait gets the head of a
stream early, and with it an event id to come back with.
"""

import asyncio
import hmac
import time
from typing import Any, Final

from mcpproxy.bridge.copied_server import is_own
from mcpproxy.bridge.http_messages import HttpRequest, HttpResponder, Receive, Send
from mcpproxy.bridge.message_bytes import Key, as_line, requests_in
from mcpproxy.bridge.resumable_streams import ConnectionLimit, GoneEventsError, Polling, ResumableStream
from mcpproxy.bridge.session_table import CannotStartError, HttpSessions, TooManySessionsError
from mcpproxy.bridge.stateless_headers import rejection_of, status_of
from mcpproxy.bridge.stdio_session import PostAnswer, StdioSession, tokens_in, wants_logs
from mcpproxy.protocol.error_message import (
    IN_PLACE_OF_PEER,
    INVALID_REQUEST,
    NO_SESSION,
    PARSE_ERROR,
    error_message,
)
from mcpproxy.protocol.header_names import SESSION_ID
from mcpproxy.protocol.jsonrpc import ABSENT, Batch, Malformed, Message, Notification, Request, parse
from mcpproxy.protocol.request_headers import stateless_version
from mcpproxy.protocol.revisions import REVISIONS, STATELESS, since
from mcpproxy.relay.http.guard import Guard
from mcpproxy.relay.http.request_head import ParsedHead, Refusal
from mcpproxy.replay.server.request_body import BodyRefusedError, BodyRoom

STREAM_AFTER_S: Final = 1.0
"""How long an answer may take before its response becomes a stream."""

_STATELESS_STREAM_AFTER_S: Final = 10.0
"""The same for stateless requests: their streams cannot be resumed, and the status of a stream, which is sent
before the answer, cannot say that the answer is an error."""

_PRIMED: Final = since("2025-11-25")
"""The revisions in which a stream begins with an event that has an id and no data, and in which its
connection may be closed before the response. Later revisions have no sessions, and no ids of events."""

_ALLOWED: Final = {"allow": "GET, POST, DELETE"}


class HttpApp:
    """Answers requests.

    ``token`` is the bearer token that clients must send, empty for none. With ``streams``, every request of a
    session is answered with an event stream. With ``polling``, connections of streams are closed.
    """

    def __init__(
        self,
        sessions: HttpSessions,
        endpoint: str,
        guard: Guard,
        origins: set[str],
        token: str,
        *,
        streams: bool,
        polling: Polling | None,
    ) -> None:
        self._sessions: Final = sessions
        self._endpoint: Final = endpoint
        self._guard: Final = guard
        self._origins: Final = origins
        self._token: Final = token
        self._stream_after_s: Final = 0.0 if streams else STREAM_AFTER_S
        self._polling: Final = polling
        self._room: Final = BodyRoom()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        request = HttpRequest(scope, receive, self._room)
        respond = HttpResponder(send, self._cross_origin(request))
        try:
            if not await self._refuse(request, scope, respond):
                await self._answer(request, respond)
        except ConnectionError:
            pass  # the client has gone
        except Exception as fault:
            # Nobody above would say it. The effect is limited to this request.
            self._sessions.say(f"a fault of mcpproxy: {fault!r}; the bridge goes on, please report it")
            if not respond.has_begun:
                await _own(respond, 500, "a fault of mcpproxy")
        finally:
            request.release()

    async def _answer(self, request: HttpRequest, respond: HttpResponder) -> None:
        try:
            await self._answer_read(request, respond)
        except BodyRefusedError as refused:
            fields = {"retry-after": "5"} if refused.status == 503 else None
            await _own(respond, refused.status, str(refused), fields=fields)

    async def _answer_read(self, request: HttpRequest, respond: HttpResponder) -> None:
        if request.method == "POST":
            await self._post(request, respond, await request.body())
            return
        session = self._sessions.get(request.fields.get(SESSION_ID, ""))
        if request.method in ("GET", "DELETE") and session is not None:
            if request.method == "GET":
                await self._get(request, respond, session)
            else:
                self._sessions.end(session)
                await respond.send(200)
            return
        if request.method in ("GET", "DELETE") and SESSION_ID in request.fields:
            await self._no_session(respond)
            return
        await _own(respond, 405, "only POST is possible without a session", fields=_ALLOWED)

    async def _post(self, request: HttpRequest, respond: HttpResponder, body: bytes) -> None:
        message = parse(body)
        if isinstance(message, Malformed):
            code = PARSE_ERROR if message.value is ABSENT else INVALID_REQUEST
            await _own(respond, 400, f"the body is not a message: {message.flaw.value}", code=code)
            return
        requests = requests_in(body, message)
        if requests and not (request.accepts("application/json") or request.accepts("text/event-stream")):
            await _own(respond, 406, "Accept names neither application/json nor text/event-stream")
            return
        call = message if isinstance(message, Request | Notification) else None
        version = request.fields.get("mcp-protocol-version", "")
        if stateless_version(call) or (version in STATELESS and SESSION_ID not in request.fields):
            await self._post_stateless(request, respond, body, message)
        elif isinstance(message, Request) and message.method == "initialize":
            await self._initialize(request, respond, body, message)
        elif SESSION_ID not in request.fields:
            why = "Mcp-Session-Id is missing; a session begins with initialize"
            await _own(respond, 400, why, id=_first(requests))
        elif (session := self._sessions.get(request.fields[SESSION_ID])) is None:
            await self._no_session(respond, _first(requests))
        elif version and version not in REVISIONS and version != session.revision:
            await _own(respond, 400, f"MCP-Protocol-Version {version[:40]} is not known", id=_first(requests))
        elif requests:
            await self._ask(request, respond, session, body, message, requests, {})
        else:
            await self._tell(respond, session, body)

    async def _initialize(
        self, request: HttpRequest, respond: HttpResponder, body: bytes, message: Request
    ) -> None:
        """Begin a session. It ends again if the server refuses."""
        requests = requests_in(body, message)
        session = await self._started(respond, requests, None)
        if session is None:
            return
        try:
            await self._ask(request, respond, session, body, message, requests, {SESSION_ID: session.id})
        finally:
            if not session.revision:
                self._sessions.end(session)

    async def _post_stateless(
        self, request: HttpRequest, respond: HttpResponder, body: bytes, message: Message
    ) -> None:
        requests = requests_in(body, message)
        if isinstance(message, Batch):
            await _own(respond, 400, "this revision has no batches", code=INVALID_REQUEST)
            return
        if isinstance(message, Request) and (
            rejection := rejection_of(message, request.fields, self._sessions.mirrors)
        ):
            await _own(respond, rejection.status, rejection.why, id=_first(requests), code=rejection.code)
            return
        session = await self._started(respond, requests, message)
        if session is None:
            return
        if requests:
            await self._ask(request, respond, session, body, message, requests, {})
        else:
            await self._tell(respond, session, body)

    async def _started(
        self, respond: HttpResponder, requests: dict[Key, bytes], stateless: Message | None
    ) -> StdioSession | None:
        """Return a new session, or one for a stateless message. Respond with an error if there is none."""
        try:
            if stateless is None:
                return self._sessions.begin()
            return self._sessions.for_stateless(
                requests, tokens_in(stateless), wants_logs=wants_logs(stateless)
            )
        except TooManySessionsError as fault:
            await _own(respond, 503, str(fault), id=_first(requests), fields={"retry-after": "5"})
        except CannotStartError as fault:
            await _own(respond, 500, str(fault), id=_first(requests))
        return None

    async def _tell(self, respond: HttpResponder, session: StdioSession, body: bytes) -> None:
        """Pass on a message that gets no answer."""
        if await session.send(as_line(body)):
            await respond.send(202)
        else:
            await self._no_session(respond)

    async def _ask(
        self,
        request: HttpRequest,
        respond: HttpResponder,
        session: StdioSession,
        body: bytes,
        message: Message,
        requests: dict[Key, bytes],
        fields: dict[str, str],
    ) -> None:
        """Pass on requests, and respond with what the server answers."""
        polling = self._polling_of(session)
        limit = polling and polling.of_post(asyncio.get_running_loop().time())
        answer = await session.ask(as_line(body), message, requests)
        gone = asyncio.create_task(request.gone())
        try:
            limit_s = self._stream_after_s if session.id else _STATELESS_STREAM_AFTER_S
            if polling is not None:
                limit_s = min(limit_s, polling.after_s)
            is_whole = await self._is_whole(request, answer, gone, limit_s)
            if gone.done():
                return
            if is_whole:
                await _send_whole(respond, session, message, answer, fields)
            else:
                answer.begin_stream(primes=session.revision in _PRIMED)
                session.keep(answer.stream)
                await self._stream(respond, answer.stream, gone, fields, limit)
        finally:
            gone.cancel()
            if answer.open and not session.id:
                await session.give_up(answer)

    async def _is_whole(
        self, request: HttpRequest, answer: PostAnswer, gone: "asyncio.Task[None]", limit_s: float
    ) -> bool:
        """Wait until it is known whether the response is one body, at most ``limit_s`` if it can be a stream.

        Return whether it is one body.
        """
        may_stream = request.accepts("text/event-stream")
        if may_stream and not limit_s:
            return False
        waiting = asyncio.create_task(answer.wait(whole=not may_stream))
        timeout_s = limit_s if may_stream else None
        await asyncio.wait([waiting, gone], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if not may_stream:
            return True
        return not answer.open and len(answer.lines) == 1 and request.accepts("application/json")

    async def _get(self, request: HttpRequest, respond: HttpResponder, session: StdioSession) -> None:
        """Respond with the stream of the session, or go on with one that was cut."""
        if not request.accepts("text/event-stream"):
            await _own(respond, 406, "Accept does not name text/event-stream")
            return
        stream = session.get_stream
        if last_event_id := request.fields.get("last-event-id"):
            try:
                stream = session.resumed(last_event_id)
            except GoneEventsError as fault:
                await _own(respond, 400, str(fault))
                return
            if stream.is_done:
                # A client that resumed an empty stream would do so again and again.
                over = "the stream is over, and nothing came after that event"
                await _own(respond, 405, over, fields=_ALLOWED)
                return
        polling = self._polling_of(session)
        limit = polling and polling.of_get(asyncio.get_running_loop().time())
        await request.body()
        gone = asyncio.create_task(request.gone())
        try:
            await self._stream(respond, stream, gone, {}, limit)
        finally:
            gone.cancel()
            session.last_used = time.monotonic()

    def _polling_of(self, session: StdioSession) -> Polling | None:
        return self._polling if session.id and session.revision in _PRIMED else None

    async def _stream(
        self,
        respond: HttpResponder,
        stream: ResumableStream,
        gone: "asyncio.Task[None]",
        fields: dict[str, str],
        limit: ConnectionLimit | None,
    ) -> None:
        """Send a stream until it is over, its connection has to end, or the client has gone."""
        sending = asyncio.create_task(respond.stream(stream.read(limit), fields))
        await asyncio.wait([sending, gone], return_when=asyncio.FIRST_COMPLETED)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)

    # Who may use the endpoint

    async def _refuse(self, request: HttpRequest, scope: dict[str, Any], respond: HttpResponder) -> bool:
        """Respond to a request that may not be passed on. Return whether it is one."""
        head = ParsedHead(request.method.encode(), scope["raw_path"], b"1.1")
        head.fields = [(name, value, b"") for name, value in scope["headers"]]
        head.host = request.fields.get("host", "").encode("latin-1") or None
        try:
            self._guard.check(head)
        except Refusal as refused:
            await _own(respond, refused.status, refused.why)
            return True
        except ValueError:
            await _own(respond, 400, "the Host field is not a host")
            return True
        if request.method == "OPTIONS" and request.fields.get("origin", "").lower() in self._origins:
            allowed = {
                "access-control-allow-methods": "GET, POST, DELETE",
                "access-control-allow-headers": "*, Authorization",
            }
            await respond.send(204, fields=allowed)
            return True
        if self._token and not self._is_authorized(request):
            challenge = {"www-authenticate": "Bearer"}
            await _own(respond, 401, "the token of --token is needed", fields=challenge)
            return True
        if request.path != self._endpoint:
            await _own(respond, 404, f"the endpoint is {self._endpoint}")
            return True
        return False

    def _is_authorized(self, request: HttpRequest) -> bool:
        scheme, _, token = request.fields.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(
            token.strip().encode("latin-1", "replace"), self._token.encode("latin-1", "replace")
        )

    def _cross_origin(self, request: HttpRequest) -> dict[str, str]:
        origin = request.fields.get("origin", "")
        if origin.lower().rstrip("/") not in self._origins and "*" not in self._origins:
            return {}
        return {
            "access-control-allow-origin": origin or "*",
            "access-control-expose-headers": "Mcp-Session-Id",
            "vary": "Origin",
        }

    async def _no_session(self, respond: HttpResponder, id: bytes | None = None) -> None:
        why = "there is no such session; begin a new one with initialize"
        await _own(respond, 404, why, id=id, code=NO_SESSION)


async def _send_whole(
    respond: HttpResponder,
    session: StdioSession,
    request: Message,
    answer: PostAnswer,
    fields: dict[str, str],
) -> None:
    """Respond with one body: one message, or a batch for a client that takes no stream."""
    is_own.set(answer.is_own)
    if len(answer.lines) == 1:
        body = answer.lines[0]
        status = 200 if session.id else status_of(parse(body), request)
    else:
        body, status = b"[" + b",".join(answer.lines) + b"]", 200
    has_session = bool(session.revision)
    await respond.message(status, body, fields if has_session else {})


async def _own(
    respond: HttpResponder,
    status: int,
    why: str,
    *,
    id: bytes | None = None,
    code: int = IN_PLACE_OF_PEER,
    fields: dict[str, str] | None = None,
) -> None:
    """Respond with an error of ours."""
    is_own.set(True)
    await respond.message(status, error_message(code, f"mcpproxy: {why}", id), fields)


def _first(requests: dict[Key, bytes]) -> bytes | None:
    """Return the id of the only request, for an error; ``None`` if there are several or none."""
    return next(iter(requests.values())) if len(requests) == 1 else None
