"""``bridge --stdio``: the MCP endpoint over Streamable HTTP, in front of processes of a stdio server.

A request is answered with one JSON body if the server's first message is the answer and arrives soon.
Otherwise a client that accepts one gets an event stream. So a client that has to wait gets the head of a
stream early and, from 2025-11-25 on, an event id by which it can resume the stream.
"""

import asyncio
import time
from collections.abc import Collection
from typing import Final

from mcpproxy.peers.bridge.message_bytes import as_line, requests_in
from mcpproxy.peers.bridge.session_table import HttpSessions
from mcpproxy.peers.bridge.stdio_session import PostAnswer, StdioSession, tokens_in, wants_logs
from mcpproxy.peers.session_server.event_stream import GoneEventsError
from mcpproxy.peers.session_server.http_messages import HttpRequest, HttpResponder, as_body, is_own
from mcpproxy.peers.session_server.refused_request import METHODS, RefusedRequestError, no_session
from mcpproxy.peers.session_server.resumable_streams import Polling
from mcpproxy.peers.session_server.session_endpoint import SessionEndpoint
from mcpproxy.peers.session_server.stateless_headers import rejection_of, status_of
from mcpproxy.protocol.error_message import INVALID_REQUEST, PARSE_ERROR
from mcpproxy.protocol.header_names import PROTOCOL_VERSION, SESSION_ID
from mcpproxy.protocol.jsonrpc import ABSENT, Batch, Malformed, Message, Notification, Request, parse
from mcpproxy.protocol.request_headers import stateless_version
from mcpproxy.protocol.revisions import STATELESS, since
from mcpproxy.record.relay.http.guard import Guard

STREAM_AFTER_S: Final = 1.0
"""How many seconds an answer may take before its response becomes a stream."""

_STATELESS_STREAM_AFTER_S: Final = 10.0
"""The same for stateless requests, whose streams cannot be resumed.

It is longer, because the status of a stream is sent before the answer, and so cannot show that it is an
error."""

_PRIMED: Final = since("2025-11-25")
"""The revisions in which a stream begins with an event that has an id and no data.

In these revisions its connection may be closed before the response. Later revisions, which have neither
sessions nor event ids, are included, but not used here."""


class HttpApp(SessionEndpoint):
    """Answers requests at the path ``endpoint`` with what the servers of ``sessions`` answer.

    With ``streams``, every request of a session is answered with an event stream if the client accepts one.
    With ``polling``, the connections of streams are closed early, and clients connect again. The other
    parameters are those of ``SessionEndpoint``.
    """

    def __init__(
        self,
        sessions: HttpSessions,
        endpoint: str,
        guard: Guard,
        *,
        origins: Collection[str],
        token: str,
        streams: bool,
        polling: Polling | None,
    ) -> None:
        super().__init__((endpoint,), guard, sessions.say, origins=origins, token=token)
        self._sessions: Final = sessions
        self._stream_after_s: Final = 0.0 if streams else STREAM_AFTER_S
        self._polling: Final = polling

    async def answer_post(self, request: HttpRequest, respond: HttpResponder) -> None:
        """Pass on the messages of a POST, and respond with the server's answers.

        Raises:
            RefusedRequestError: the body is not a message, or the request cannot be passed on.
        """
        message = parse(request.content)
        if isinstance(message, Malformed):
            code = PARSE_ERROR if message.value is ABSENT else INVALID_REQUEST
            raise RefusedRequestError(400, f"the body is not a message: {message.flaw.value}", code=code)
        if requests_in(request.content, message):
            request.check_accepts("application/json", "text/event-stream")
        call = message if isinstance(message, Request | Notification) else None
        version = request.fields.get(PROTOCOL_VERSION, "")
        if stateless_version(call) or (version in STATELESS and SESSION_ID not in request.fields):
            await self._pass_on(request, respond, message, self._stateless_session(request, message))
        elif isinstance(message, Request) and message.method == "initialize":
            await self._begin_session(request, respond, message)
        else:
            session = self._session_of(request)
            if session is None:
                raise RefusedRequestError(400, "Mcp-Session-Id is missing; a session begins with initialize")
            await self._pass_on(request, respond, message, session)

    async def answer_get(self, request: HttpRequest, respond: HttpResponder) -> None:
        """Respond with the GET stream of the session, or with the rest of a stream that the client resumes.

        Raises:
            RefusedRequestError: the request names no session that exists, an unknown revision, or a stream
                that is over or whose events are gone; or the client accepts no stream.
        """
        session = self._needed_session(request)
        request.check_accepts("text/event-stream")
        stream = session.get_stream
        if last_event_id := request.fields.get("last-event-id"):
            try:
                stream = session.rewind_stream(last_event_id)
            except GoneEventsError as fault:
                raise RefusedRequestError(400, str(fault)) from None
            if stream.is_done:
                # If the response were an empty stream, the client would resume it again and again.
                over = "the stream is over, and nothing came after that event"
                raise RefusedRequestError(405, over, fields=METHODS)
        polling = self._polling_of(session)
        limit = polling and polling.of_get(asyncio.get_running_loop().time())
        try:
            await respond.stream(request, stream.read(limit))
        finally:
            session.last_used = time.monotonic()

    async def answer_delete(self, request: HttpRequest, respond: HttpResponder) -> None:
        """End a session.

        Raises:
            RefusedRequestError: the request names no session that exists, or an unknown revision.
        """
        self._sessions.end(self._needed_session(request))
        await respond.send(200)

    def _session_of(self, request: HttpRequest) -> StdioSession | None:
        """Return the session that a request names; ``None`` if it names none.

        Raises:
            RefusedRequestError: there is no such session, or a request in it names an unknown revision.
        """
        if SESSION_ID not in request.fields:
            return None
        session = self._sessions.get(request.fields[SESSION_ID])
        if session is None:
            raise no_session()
        request.check_version((session.revision,))
        return session

    def _needed_session(self, request: HttpRequest) -> StdioSession:
        """Return the session that a request names, and refuse a request that names none."""
        session = self._session_of(request)
        if session is None:
            raise RefusedRequestError(405, "only POST is possible without a session", fields=METHODS)
        return session

    async def _begin_session(self, request: HttpRequest, respond: HttpResponder, message: Request) -> None:
        """Begin a session, and end it again if the server refuses ``initialize``."""
        session = self._sessions.begin()
        try:
            await self._pass_on(request, respond, message, session, {SESSION_ID: session.id})
        finally:
            if not session.revision:
                self._sessions.end(session)

    def _stateless_session(self, request: HttpRequest, message: Message) -> StdioSession:
        """Return a session without an id for a stateless message, or refuse the message."""
        if isinstance(message, Batch):
            raise RefusedRequestError(400, "this revision has no batches", code=INVALID_REQUEST)
        if isinstance(message, Request) and (
            rejection := rejection_of(message, request.fields, self._sessions.mirrors)
        ):
            raise RefusedRequestError(rejection.status, rejection.why, code=rejection.code)
        requests = requests_in(request.content, message)
        return self._sessions.for_stateless(requests, tokens_in(message), wants_logs=wants_logs(message))

    async def _pass_on(
        self,
        request: HttpRequest,
        respond: HttpResponder,
        message: Message,
        session: StdioSession,
        fields: dict[str, str] | None = None,
    ) -> None:
        """Pass on a message, and respond with the server's answers to its requests.

        ``fields`` are header fields for the response.
        """
        line = as_line(request.content)
        if not (requests := requests_in(request.content, message)):
            if not await session.send(line):
                raise no_session()
            await respond.send(202)
            return
        polling = self._polling_of(session)
        limit = polling and polling.of_post(asyncio.get_running_loop().time())
        answer = await session.send_requests(line, message, requests)
        try:
            limit_s = self._stream_after_s if session.id else _STATELESS_STREAM_AFTER_S
            if polling is not None:
                limit_s = min(limit_s, polling.after_s)
            is_one_body = await self._is_one_body(request, answer, limit_s)
            if request.has_gone:
                return
            if is_one_body:
                await _send_body(respond, session, message, answer, fields)
            else:
                answer.begin_stream(primes=session.revision in _PRIMED)
                session.keep_stream(answer.stream)
                await respond.stream(request, answer.stream.read(limit), fields)
        finally:
            if answer.open and not session.id:
                await session.cancel_requests(answer)

    async def _is_one_body(self, request: HttpRequest, answer: PostAnswer, limit_s: float) -> bool:
        """Wait until it is decided whether the response is one body, and return that.

        If it may be a stream, wait at most ``limit_s``.
        """
        may_stream = request.accepts("text/event-stream")
        if may_stream and not limit_s:
            return False
        await request.unless_gone(answer.wait(for_all=not may_stream), limit_s if may_stream else None)
        if not may_stream:
            return True
        return not answer.open and len(answer.lines) == 1 and request.accepts("application/json")

    def _polling_of(self, session: StdioSession) -> Polling | None:
        return self._polling if session.id and session.revision in _PRIMED else None


async def _send_body(
    respond: HttpResponder,
    session: StdioSession,
    request: Message,
    answer: PostAnswer,
    fields: dict[str, str] | None,
) -> None:
    """Respond with one body: one message, or a batch for a client that does not accept a stream."""
    is_own.set(answer.is_own)
    body = as_body(answer.lines)
    is_single = len(answer.lines) == 1
    status = status_of(parse(body), request) if is_single and not session.id else 200
    await respond.message(status, body, fields if session.revision else None)
