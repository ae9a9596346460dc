"""Replays a recorded server over Streamable HTTP. The recording can be of any transport.

Each ``initialize`` of a client begins the next recorded session; after the last session the first is replayed
again. A request without a session id is answered from the recorded messages without a session id. A recording
of HTTP+SSE is replayed over HTTP+SSE.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit
from uuid import uuid4

import uvicorn
from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mcpproxy.base.authority import is_loopback
from mcpproxy.protocol import jsonrpc
from mcpproxy.protocol.error_message import NO_SESSION, error_message
from mcpproxy.protocol.header_names import SESSION_ID
from mcpproxy.protocol.message_parts import singles
from mcpproxy.relay.http.listener import listen
from mcpproxy.replay.http_parts import (
    foreign_site,
    headers_of,
    is_resumption,
    next_unused,
    path_of,
    uses_http_sse,
)
from mcpproxy.replay.recording import Exchange, RecordedSession
from mcpproxy.replay.server.cut_answer import CutAnswer, closable
from mcpproxy.replay.server.engine import ReplayEngine
from mcpproxy.replay.server.event_stream import EventStream
from mcpproxy.replay.server.http_session import LiveHttpSession
from mcpproxy.replay.server.live_messages import ReplayOptions
from mcpproxy.replay.server.replay_source import NonMcpAnswer, ReplaySource
from mcpproxy.replay.server.request_body import BodyRefusedError, BodyRoom, RequestBody
from mcpproxy.session.masked_values import is_masked

_HTTP_METHODS: Final = ("GET", "POST", "DELETE", "PUT", "PATCH", "OPTIONS")
_SILENCE_S: Final = 86_400
"""The interval of keep-alive comments, long enough that only the recorded events are sent."""


class HttpReplayServer:
    """Listens as soon as it is constructed; ``run`` serves until SIGINT or SIGTERM.

    ``engines`` are the engines of all sessions so far. ``command`` is a server to which requests are passed
    on if the recording does not answer them, and ``passed_on`` counts those requests.

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
        self._is_local: Final = is_loopback(bound_address[0])
        self._source: Final = replay_source
        self._options: Final = options
        self._log: Final = log
        self._command: Final = command
        self.engines: Final[list[ReplayEngine]] = []
        self._all_sessions: Final[list[LiveHttpSession]] = []
        self._by_id: Final[dict[str, LiveHttpSession]] = {}
        self._session_without_id: LiveHttpSession | None = None
        self._sessions_begun = 0
        self._used_exchanges: Final[set[int]] = set()
        self._room: Final = BodyRoom()
        sessions = [replay_source.unnamed, *replay_source.sessions]
        exchanges = [exchange for session in sessions for exchange in session.exchanges.values()]
        self._is_http_sse: Final = uses_http_sse(replay_source)
        self._was_recorded_over_http: Final = bool(exchanges)
        self._paths: Final = {path_of(exchange) for exchange in exchanges} or {"/mcp"}
        path = next((path_of(exchange) for exchange in exchanges), "/mcp")
        name = f"[{bound_address[0]}]" if ":" in bound_address[0] else bound_address[0]
        self.url: Final = f"http://{name}:{bound_address[1]}{path}"
        """The URL that clients connect to."""

    @property
    def passed_on(self) -> int:
        return sum(session.passed_on for session in self._all_sessions)

    def run(self) -> None:
        """Serve until SIGINT or SIGTERM."""
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        app = Starlette(routes=[Route("/{path:path}", self._answer, methods=list(_HTTP_METHODS))])
        config = uvicorn.Config(
            closable(app),
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        server = _Server(config)

        def stop() -> None:
            server.should_exit = True
            for session in self._all_sessions:
                session.end()

        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop)
        await server.serve([self._socket])

    async def _answer(self, request: Request) -> Response:
        if refusal := self._refusal(request):
            return refusal
        if non_mcp := self._non_mcp_answer(request):
            exchange = non_mcp.exchange
            return Response(non_mcp.body, exchange.status or 200, headers_of(exchange))
        if request.url.path not in self._paths:
            return Response(status_code=404)
        if request.method == "POST":
            length = request.headers.get("content-length", "")
            body = RequestBody(self._room, request.receive, length)
            try:
                return await self._post(request, await body.read())
            except BodyRefusedError as refused:
                return _refused(refused.status, str(refused))
            except ConnectionError:  # the client has gone
                return Response(status_code=400)
            finally:
                body.release()
        if request.method == "GET":
            return self._get(request)
        session = self._by_id.get(request.headers.get(SESSION_ID, ""))
        exchange = self._next_exchange(request.method, session)
        if request.method == "DELETE" and session is not None and (not exchange or exchange.status < 300):
            session.end()
            del self._by_id[session.id]
        default = 200 if request.method == "DELETE" and session is not None else 405
        status = exchange.status if exchange and exchange.status else default
        return Response(status_code=status, headers=headers_of(exchange))

    async def _post(self, request: Request, body: bytes) -> Response:
        received_at = asyncio.get_running_loop().time()
        session = self._session_of(request, body)
        if session is None:
            return _refused(404, "Session not found")
        post, messages = session.post(body, received_at)
        headers = headers_of(post.exchange)
        if session.id and not self._is_http_sse and any(_is_initialize(live.message) for live in messages):
            headers[SESSION_ID] = session.id
        if self._is_http_sse:
            return Response(b"\n".join(post.texts), post.status or 202, headers)
        has_request = any(isinstance(live.message, jsonrpc.Request) for live in messages)
        if post.is_stream and has_request:
            return _events(post.stream, None, headers, post.status or 200)
        await post.settled.wait()
        if post.exchange is not None and post.exchange.is_cut_by_proxy:
            return CutAnswer(b"".join(post.texts), post.status, headers)
        if not has_request and not post.texts:
            return Response(status_code=post.status or 202, headers=headers)
        headers.setdefault("content-type", "application/json")
        return Response(post.body, post.status or (200 if has_request else 400), headers)

    def _get(self, request: Request) -> Response:
        if self._is_http_sse:
            return self._http_sse_stream()
        session = self._by_id.get(request.headers.get(SESSION_ID, "")) or self._session_without_id
        if SESSION_ID in request.headers and (session is None or session is self._session_without_id):
            return _refused(404, "Session not found")
        last_id = request.headers.get("last-event-id")
        stream = session.stream_of_event(last_id) if session and last_id else None
        if stream is not None:
            return _events(stream, last_id, {})
        exchange = self._next_exchange("GET", session)
        has_no_stream = exchange is None and (
            self._was_recorded_over_http or session is self._session_without_id
        )
        if session is None or has_no_stream or (exchange and exchange.status >= 300):
            status = exchange.status if exchange and exchange.status >= 300 else 405
            return Response(status_code=status, headers={"allow": "POST, DELETE"} | headers_of(exchange))
        return _events(session.get_stream, None, headers_of(exchange))

    def _http_sse_stream(self) -> Response:
        session = self._new_session()
        stream_path = urlsplit(self.url).path
        # POSTs go to another path, if another path was recorded.
        path = min(self._paths - {stream_path}, default=stream_path)

        async def events() -> AsyncIterator[bytes]:
            yield f"event: endpoint\ndata: {path}?sessionId={session.id}\n\n".encode()
            async for event in session.get_stream.read():
                yield event

        return EventSourceResponse(events(), ping=_SILENCE_S)

    def _session_of(self, request: Request, body: bytes) -> LiveHttpSession | None:
        """Return the session that a POST belongs to; ``None`` if it names a session that does not exist."""
        id = request.headers.get(SESSION_ID) or request.query_params.get("sessionId")
        if id:
            return self._by_id.get(id)
        message = jsonrpc.parse(body)
        messages = singles(message)
        if any(map(_is_initialize, messages)):
            if self._source.sessions or not self._was_recorded_over_http:
                return self._new_session()
            # The recorded server issues no session ids, so a new ``initialize`` begins the session again.
            self._session_without_id = None
        if self._session_without_id is None:
            self._session_without_id = self._begin("", self._source.unnamed)
        return self._session_without_id

    def _new_session(self) -> LiveHttpSession:
        """Begin the next recorded session, with its recorded id if that is possible."""
        recorded = self._source.sessions or (self._source.unnamed,)
        session = recorded[self._sessions_begun % len(recorded)]
        self._sessions_begun += 1
        issued_id = session.issued_session_id
        id = (
            issued_id
            if issued_id and not is_masked(issued_id) and issued_id not in self._by_id
            else str(uuid4())
        )
        self._by_id[id] = self._begin(id, session)
        return self._by_id[id]

    def _begin(self, id: str, session: RecordedSession) -> LiveHttpSession:
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
            if exchange.request.method == method and not is_resumption(exchange)
        )
        return next_unused(same_requests, self._used_exchanges)

    def _non_mcp_answer(self, request: Request) -> NonMcpAnswer | None:
        """Return the recorded response at a path other than the MCP endpoint, if there is one."""
        same_requests = {
            answer.exchange.number: answer
            for answer in self._source.non_mcp
            if answer.exchange.request.method == request.method
            and path_of(answer.exchange) == request.url.path
        }
        exchange = next_unused((answer.exchange for answer in same_requests.values()), self._used_exchanges)
        return same_requests[exchange.number] if exchange else None

    def _refusal(self, request: Request) -> Response | None:
        """Return the refusal of a request from a foreign site."""
        if self._is_local:
            name = foreign_site(request.headers.get("origin", ""), request.headers.get("host", ""))
            if name is not None:
                return Response(f"{name} is a foreign site\n", 403)
        return None


class _Server(uvicorn.Server):
    """A server that leaves signals alone, because ``_serve`` handles them.

    uvicorn would end the process with the signal, and without our exit code.
    """

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def _events(stream: EventStream, last_id: str | None, headers: dict[str, str], status: int = 200) -> Response:
    headers.pop("content-type", None)
    return EventSourceResponse(stream.read(last_id), status, headers, ping=_SILENCE_S)


def _refused(status: int, why: str) -> Response:
    return Response(error_message(NO_SESSION, why), status, media_type="application/json")


def _is_initialize(message: jsonrpc.Message) -> bool:
    return isinstance(message, jsonrpc.Request) and message.method == "initialize"
