"""Replay a recorded server over Streamable HTTP. The recording can be of any transport.

Each ``initialize`` of a client begins the next recorded session; after the last session the first is replayed
again. A request without a session id is answered from the recorded messages without a session id. A recording
of HTTP+SSE, the transport before Streamable HTTP, is replayed over HTTP+SSE.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

from mcpproxy.base.authority import is_loopback
from mcpproxy.base.named_url import path_of
from mcpproxy.judge.session.masked_values import is_masked
from mcpproxy.peers.replay.http_parts import headers_of, known_versions, next_unused
from mcpproxy.peers.replay.recording import Exchange, RecordedSession
from mcpproxy.peers.replay.server.engine import ReplayEngine
from mcpproxy.peers.replay.server.http_session import LiveHttpSession
from mcpproxy.peers.replay.server.live_messages import ReplayOptions
from mcpproxy.peers.replay.server.replay_source import NonMcpAnswer, ReplaySource
from mcpproxy.peers.session_server.event_stream import event_bytes
from mcpproxy.peers.session_server.http_messages import HttpRequest, HttpResponder
from mcpproxy.peers.session_server.quiet_server import QuietServer
from mcpproxy.peers.session_server.refused_request import RefusedRequestError, no_session
from mcpproxy.peers.session_server.session_endpoint import SessionEndpoint
from mcpproxy.peers.session_server.stateless_headers import mismatch
from mcpproxy.protocol import jsonrpc
from mcpproxy.protocol.error_message import HEADER_MISMATCH
from mcpproxy.protocol.header_names import SESSION_ID
from mcpproxy.protocol.message_parts import singles
from mcpproxy.protocol.mirrors import listed_mirrors
from mcpproxy.protocol.request_headers import stateless_version
from mcpproxy.protocol.revisions import STATELESS
from mcpproxy.record.relay.http.guard import Guard
from mcpproxy.record.relay.http.listener import listen


class HttpReplayServer(SessionEndpoint):
    """Listens as soon as it is constructed; ``run`` serves until SIGINT or SIGTERM.

    ``engines`` are the engines of all sessions so far. ``command`` starts a server to which requests are
    passed on that the recording does not answer; it is empty if those are answered with errors. ``log`` is
    called with each line for the user.

    Raises:
        OSError: the port is not available.
    """

    def __init__(
        self,
        host: str,
        port: int,
        replay_source: ReplaySource,
        options: ReplayOptions,
        log: Callable[[str], None],
        command: Sequence[str] = (),
    ) -> None:
        self._socket: Final = listen(host, port)
        bound_address: tuple[str, int] = self._socket.getsockname()[:2]
        sessions = [replay_source.unnamed, *replay_source.sessions]
        exchanges = [exchange for session in sessions for exchange in session.exchanges.values()]
        paths = {path_of(exchange.request.target) for exchange in exchanges} or {"/mcp"}
        guard = Guard(is_loopback(bound_address[0]), [host], (), has_option=False)
        super().__init__(paths, guard, log)
        self._source: Final = replay_source
        self._options: Final = options
        self._log: Final = log
        self._command: Final = command
        self.engines: Final[list[ReplayEngine]] = []
        self._all_sessions: Final[list[LiveHttpSession]] = []
        self._named_sessions: Final[dict[str, LiveHttpSession]] = {}
        self._session_without_id: LiveHttpSession | None = None
        self._sessions_begun = 0
        self._used_exchanges: Final[set[int]] = set()
        self._is_http_sse: Final = any(session.uses_http_sse for session in sessions)
        self._was_recorded_over_http: Final = bool(exchanges)
        self._versions: Final = known_versions(replay_source)
        self._mirrors: Final = {
            tool: mirrors
            for session in sessions
            for entry in session.messages
            for tool, mirrors in listed_mirrors(entry.raw).items()
        }
        path = next((path_of(exchange.request.target) for exchange in exchanges), "/mcp")
        name = f"[{bound_address[0]}]" if ":" in bound_address[0] else bound_address[0]
        self.url: Final = f"http://{name}:{bound_address[1]}{path}"
        """The URL that clients connect to."""

    @property
    def passed_on(self) -> int:
        """How many requests were passed on to ``command``."""
        return sum(session.passed_on for session in self._all_sessions)

    def run(self) -> None:
        """Serve until SIGINT or SIGTERM."""
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        server = QuietServer(self)

        def stop() -> None:
            server.should_exit = True
            for session in self._all_sessions:
                session.end()

        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop)
        await server.serve([self._socket])

    async def answer_beside(self, request: HttpRequest, respond: HttpResponder) -> bool:
        """Give the recorded answer at a path other than the MCP endpoint, if there is one."""
        if (non_mcp := self._non_mcp_answer(request)) is None:
            return await super().answer_beside(request, respond)
        await respond.send(non_mcp.exchange.status or 200, non_mcp.body, headers_of(non_mcp.exchange))
        return True

    async def answer_post(self, request: HttpRequest, respond: HttpResponder) -> None:
        """Answer messages of the client from the recording.

        Raises:
            RefusedRequestError: the headers of a stateless request contradict its body, or the request names
                an unknown session, or in a session an unknown revision.
        """
        message = jsonrpc.parse(request.content)
        if (
            isinstance(message, jsonrpc.Request)
            and stateless_version(message) in STATELESS
            and (why := mismatch(message, request.fields, self._mirrors))
        ):
            raise RefusedRequestError(400, why, code=HEADER_MISMATCH)
        received_at = asyncio.get_running_loop().time()
        session = self._session_of_post(request)
        post, messages = session.post(request.content, received_at)
        fields = headers_of(post.exchange)
        if session.id and not self._is_http_sse and any(_is_initialize(live.message) for live in messages):
            fields[SESSION_ID] = session.id
        if self._is_http_sse:
            await respond.send(post.status or 202, b"\n".join(post.texts), fields)
            return
        has_request = any(isinstance(live.message, jsonrpc.Request) for live in messages)
        if post.is_stream and has_request:
            await respond.stream(request, post.stream.read(), fields, post.status or 200)
            return
        if not post.settled.is_set():
            await request.unless_gone(post.settled.wait())
        if request.has_gone:
            return
        if post.exchange is not None and post.exchange.is_cut_by_proxy:
            await respond.cut(post.status, b"".join(post.texts), fields)
        elif not has_request and not post.texts:
            await respond.send(post.status or 202, fields=fields)
        else:
            await respond.message(post.status or (200 if has_request else 400), post.body, fields)

    async def answer_get(self, request: HttpRequest, respond: HttpResponder) -> None:
        """Respond with the stream of the session (HTTP+SSE: of a new one), or one that the client resumes.

        If the recorded server refused a GET, respond with its status. Respond with 405 if the client has no
        session, or if no GET was recorded, except for a session with an id that was recorded on stdio.

        Raises:
            RefusedRequestError: the request names an unknown session, or in a session an unknown revision.
        """
        if self._is_http_sse:
            await respond.stream(request, self._http_sse_events())
            return
        session = self._named_session(request) or self._session_without_id
        last_id = request.fields.get("last-event-id")
        if session and last_id and (stream := session.resumed_stream(last_id)):
            await respond.stream(request, stream.read())
            return
        exchange = self._next_exchange("GET", session)
        has_no_stream = exchange is None and (
            self._was_recorded_over_http or session is self._session_without_id
        )
        if session is None or has_no_stream or (exchange and exchange.status >= 300):
            status = exchange.status if exchange and exchange.status >= 300 else 405
            await respond.send(status, fields={"allow": "POST, DELETE"} | headers_of(exchange))
        else:
            fields = headers_of(exchange)
            fields.pop("content-type", None)  # the recorded GET may have had no stream
            await respond.stream(request, session.get_stream.read(), fields)

    async def answer_delete(self, request: HttpRequest, respond: HttpResponder) -> None:
        """End a session, unless the recorded server refused to.

        Raises:
            RefusedRequestError: the request names an unknown session, or in a session an unknown revision.
        """
        session = self._named_session(request)
        exchange = self._next_exchange("DELETE", session)
        if session is not None and (not exchange or exchange.status < 300):
            session.end()
            del self._named_sessions[session.id]
        default = 405 if session is None else 200
        await respond.send((exchange and exchange.status) or default, fields=headers_of(exchange))

    async def answer_other(self, request: HttpRequest, respond: HttpResponder) -> None:
        """Respond with the recorded status to a method that Streamable HTTP does not have.

        Raises:
            RefusedRequestError: no request with this method was recorded, or the request names an unknown
                session, or in a session an unknown revision.
        """
        exchange = self._next_exchange(request.method, self._named_session(request))
        if exchange is None:
            await super().answer_other(request, respond)
        else:
            await respond.send(exchange.status or 405, fields=headers_of(exchange))

    async def _http_sse_events(self) -> AsyncIterator[bytes]:
        session = self._new_session()
        stream_path = urlsplit(self.url).path
        # POSTs go to another path, if another path was recorded.
        path = min(self._paths - {stream_path}, default=stream_path)
        yield event_bytes(f"{path}?sessionId={session.id}".encode(), b"event: endpoint\n")
        async for event in session.get_stream.read():
            yield event

    def _named_session(self, request: HttpRequest, id: str = "") -> LiveHttpSession | None:
        """Return the session that a request names; ``None`` if it names none.

        ``id`` is the session id in the URL of HTTP+SSE; if it is empty, the header names the session.

        Raises:
            RefusedRequestError: there is no such session, or the revision of a request in it is unknown.
        """
        if not (id := id or request.fields.get(SESSION_ID, "")):
            return None
        if id not in self._named_sessions:
            raise no_session()
        request.check_version(self._versions)
        return self._named_sessions[id]

    def _session_of_post(self, request: HttpRequest) -> LiveHttpSession:
        """Return the session that a POST belongs to or begins."""
        [id] = parse_qs(request.query).get("sessionId", [""])[:1]
        if session := self._named_session(request, id):
            return session
        if any(map(_is_initialize, singles(jsonrpc.parse(request.content)))):
            if self._source.sessions or not self._was_recorded_over_http:
                return self._new_session()
            # The recorded server issued no session ids, so a new ``initialize`` begins the session again.
            self._session_without_id = None
        if self._session_without_id is None:
            self._session_without_id = self._begin_session("", self._source.unnamed)
        return self._session_without_id

    def _new_session(self) -> LiveHttpSession:
        """Begin the next recorded session, with its recorded id if that is possible."""
        recorded = self._source.sessions or (self._source.unnamed,)
        session = recorded[self._sessions_begun % len(recorded)]
        self._sessions_begun += 1
        issued_id = session.issued_session_id
        id = (
            issued_id
            if issued_id and not is_masked(issued_id) and issued_id not in self._named_sessions
            else str(uuid4())
        )
        self._named_sessions[id] = self._begin_session(id, session)
        return self._named_sessions[id]

    def _begin_session(self, id: str, session: RecordedSession) -> LiveHttpSession:
        engine = ReplayEngine(session, replace(self._options, stateful=self._source.is_stateful), id)
        live = LiveHttpSession(
            id, session, engine, self._log, self._command, uses_one_stream=self._is_http_sse
        )
        self.engines.append(engine)
        self._all_sessions.append(live)
        return live

    def _next_exchange(self, method: str, session: LiveHttpSession | None) -> Exchange | None:
        """Return the next recorded exchange of this HTTP method, or the last one again; no resumptions."""
        recorded = session.session if session else self._source.unnamed
        same_requests = (
            exchange
            for exchange in recorded.exchanges.values()
            if exchange.request.method == method and not exchange.is_resumption
        )
        return next_unused(same_requests, self._used_exchanges)

    def _non_mcp_answer(self, request: HttpRequest) -> NonMcpAnswer | None:
        """Return the recorded response at a path other than the MCP endpoint, if there is one."""
        same_requests = {
            answer.exchange.number: answer
            for answer in self._source.non_mcp
            if answer.exchange.request.method == request.method
            and path_of(answer.exchange.request.target) == request.path
        }
        exchange = next_unused((answer.exchange for answer in same_requests.values()), self._used_exchanges)
        return same_requests[exchange.number] if exchange else None


def _is_initialize(message: jsonrpc.Message) -> bool:
    return isinstance(message, jsonrpc.Request) and message.method == "initialize"
