"""Serves a recorded server over Streamable HTTP, whatever transport it was recorded on.

Each ``initialize`` of a client begins the next recorded session, and after the last one the first again.
Requests without a session id are answered from the recorded requests without one. A recording of HTTP+SSE is
served as HTTP+SSE.
"""

import asyncio
import json
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

from mcpproxy.framing.lines import LIMIT_BYTES
from mcpproxy.protocol import jsonrpc
from mcpproxy.relay.http.guard import is_loopback
from mcpproxy.relay.http.proxy import listen
from mcpproxy.replay.http_parts import (
    SESSION_ID,
    foreign_site,
    headers_of,
    is_resumption,
    next_unused,
    path_of,
    uses_http_sse,
)
from mcpproxy.replay.recording import Exchange, RecordedSession
from mcpproxy.replay.server.engine import ReplayEngine
from mcpproxy.replay.server.event_stream import EventStream
from mcpproxy.replay.server.http_session import LiveHttpSession, LivePost
from mcpproxy.replay.server.live_messages import ReplayOptions
from mcpproxy.replay.server.replay_source import NonMcpAnswer, ReplaySource
from mcpproxy.session.masked_values import is_masked

_METHODS: Final = ("GET", "POST", "DELETE", "PUT", "PATCH", "OPTIONS")
_SILENCE_S: Final = 86_400
"""The interval of keep-alive comments, long enough that only the recorded events are sent."""


class HttpReplayServer:
    """Listens as soon as it is constructed; ``run`` serves until SIGINT or SIGTERM.

    ``engines`` holds the engine of every session so far. ``passed_on`` counts the requests that were passed
    on to the command behind the recording.

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
        bound: tuple[str, int] = self._socket.getsockname()[:2]
        self._is_local: Final = is_loopback(bound[0])
        self._source: Final = replay_source
        self._options: Final = options
        self._log: Final = log
        self._command: Final = command
        self.engines: Final[list[ReplayEngine]] = []
        self._all_sessions: Final[list[LiveHttpSession]] = []
        self._by_id: Final[dict[str, LiveHttpSession]] = {}
        self._session_without_id: LiveHttpSession | None = None
        self._sessions_begun = 0
        self._used: Final[set[int]] = set()
        exchanges = [one for session in self._sessions() for one in session.exchanges.values()]
        self._is_http_sse: Final = uses_http_sse(replay_source)
        self._over_http: Final = bool(exchanges)
        self._paths: Final = {path_of(one) for one in exchanges} or {"/mcp"}
        where = next((path_of(one) for one in exchanges), "/mcp")
        name = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
        self.url: Final = f"http://{name}:{bound[1]}{where}"
        """The URL that clients connect to."""

    @property
    def passed_on(self) -> int:
        return sum(session.passed_on for session in self._all_sessions)

    def run(self) -> None:
        """Serve until SIGINT or SIGTERM."""
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        app = Starlette(routes=[Route("/{path:path}", self._answer, methods=list(_METHODS))])
        config = uvicorn.Config(
            app,
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
            return await self._post(request)
        if request.method == "GET":
            return self._get(request)
        session = self._by_id.get(request.headers.get(SESSION_ID, ""))
        exchange = self._next(request.method, session)
        if request.method == "DELETE" and session is not None and (not exchange or exchange.status < 300):
            session.end()
            del self._by_id[session.id]
        default = 200 if request.method == "DELETE" and session is not None else 405
        status = exchange.status if exchange and exchange.status else default
        return Response(status_code=status, headers=headers_of(exchange))

    async def _post(self, request: Request) -> Response:
        body = await request.body()
        received_at = asyncio.get_running_loop().time()
        session = self._session_of(request, body)
        if session is None:
            return _refused(404, "Session not found")
        post, messages = session.post(body, received_at)
        headers = headers_of(post.exchange)
        if session.id and not self._is_http_sse and any(_is_initialize(live.message) for live in messages):
            headers[SESSION_ID] = session.id
        status = post.exchange.status if post.exchange and post.exchange.status else 0
        if self._is_http_sse:
            return Response(b"\n".join(post.texts), status or 202, headers)
        asks = any(isinstance(live.message, jsonrpc.Request) for live in messages)
        if post.is_stream and asks:
            return _events(post.stream, None, headers, status or 200)
        await post.settled.wait()
        if not asks and not post.texts:
            return Response(status_code=status or 202, headers=headers)
        headers.setdefault("content-type", "application/json")
        return Response(_one_body(post), status or (200 if asks else 400), headers)

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
        exchange = self._next("GET", session)
        has_no_stream = exchange is None and (self._over_http or session is self._session_without_id)
        if session is None or has_no_stream or (exchange and exchange.status >= 300):
            status = exchange.status if exchange and exchange.status >= 300 else 405
            return Response(status_code=status, headers={"allow": "POST, DELETE"} | headers_of(exchange))
        return _events(session.get_stream, None, headers_of(exchange))

    def _http_sse_stream(self) -> Response:
        session = self._new_session()
        path = next(iter(sorted(self._paths - {urlsplit(self.url).path})), urlsplit(self.url).path)

        async def events() -> AsyncIterator[bytes]:
            yield f"event: endpoint\ndata: {path}?sessionId={session.id}\n\n".encode()
            async for one in session.get_stream.read():
                yield one

        return EventSourceResponse(events(), ping=_SILENCE_S)

    def _session_of(self, request: Request, body: bytes) -> LiveHttpSession | None:
        """Return the session that a POST belongs to; ``None`` if it names a session that does not exist."""
        id = request.headers.get(SESSION_ID) or request.query_params.get("sessionId")
        if id:
            return self._by_id.get(id)
        message = jsonrpc.parse(body)
        messages = message.items if isinstance(message, jsonrpc.Batch) else (message,)
        if any(_is_initialize(one) for one in messages):
            if self._source.sessions or not self._over_http:
                return self._new_session()
            self._session_without_id = None  # a server without session ids: ``initialize`` starts over
        if self._session_without_id is None:
            self._session_without_id = self._begin("", self._source.unnamed)
        return self._session_without_id

    def _new_session(self) -> LiveHttpSession:
        recorded = self._source.sessions or (self._source.unnamed,)
        session = recorded[self._sessions_begun % len(recorded)]
        self._sessions_begun += 1
        given = session.issued_session_id
        id = given if given and not is_masked(given) and given not in self._by_id else str(uuid4())
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

    def _sessions(self) -> list[RecordedSession]:
        return [self._source.unnamed, *self._source.sessions]

    def _next(self, method: str, session: LiveHttpSession | None) -> Exchange | None:
        """Return the next recorded exchange of this method, or the last again; resumptions do not count."""
        recorded = session.session if session else self._source.unnamed
        alike = (
            one
            for one in recorded.exchanges.values()
            if one.request.method == method and not is_resumption(one)
        )
        return next_unused(alike, self._used)

    def _non_mcp_answer(self, request: Request) -> NonMcpAnswer | None:
        alike = {
            one.exchange.number: one
            for one in self._source.non_mcp
            if one.exchange.request.method == request.method and path_of(one.exchange) == request.url.path
        }
        found = next_unused((one.exchange for one in alike.values()), self._used)
        return alike[found.number] if found else None

    def _refusal(self, request: Request) -> Response | None:
        """Refuse requests of foreign sites, and bodies longer than any message may be."""
        if self._is_local:
            name = foreign_site(request.headers.get("origin", ""), request.headers.get("host", ""))
            if name is not None:
                return Response(f"{name} is a foreign site\n", 403)
        length = request.headers.get("content-length", "0")
        if length.isdecimal() and int(length) > LIMIT_BYTES:
            return Response(status_code=413)
        return None


class _Server(uvicorn.Server):
    """Leaves signals to ``stop``: uvicorn would end the process by the signal, without our exit code."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def _events(stream: EventStream, last_id: str | None, headers: dict[str, str], status: int = 200) -> Response:
    headers.pop("content-type", None)
    return EventSourceResponse(stream.read(last_id), status, headers, ping=_SILENCE_S)


def _one_body(post: LivePost) -> bytes:
    if len(post.texts) < 2 or (post.exchange and post.exchange.status >= 300):
        return b"".join(post.texts)
    return b"[" + b",".join(post.texts) + b"]"


def _refused(status: int, why: str) -> Response:
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": -32001, "message": why}}
    return Response(json.dumps(body), status, media_type="application/json")


def _is_initialize(message: jsonrpc.Message) -> bool:
    return isinstance(message, jsonrpc.Request) and message.method == "initialize"
