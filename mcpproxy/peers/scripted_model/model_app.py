"""The interface of a scripted model, a script in place of a language model, as an ASGI application.

It speaks every dialect (the API of a provider of models) at once: the path of a request tells which one it
is, whatever base URL comes before it. Hosts also list models, count tokens, check that a server is there, and
send statistics. Those requests get responses with which the host continues.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Final

import anyio
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from mcpproxy.model.dialect import Dialect, dialect_of
from mcpproxy.peers.scripted_model.answers import chat
from mcpproxy.peers.scripted_model.answers.writers import WRITERS, counting, models
from mcpproxy.peers.scripted_model.script_player import ScriptPlayer
from mcpproxy.peers.scripted_model.scripted_answer import ScriptedAnswer, ScriptedFailure
from mcpproxy.protocol.jsonrpc import JSONObject, read
from mcpproxy.protocol.message_parts import as_object
from mcpproxy.record.framing.coding import decoder
from mcpproxy.record.relay.http.guard import Guard
from mcpproxy.record.relay.http.request_head import ParsedHead, Refusal

_KEY_OF_GEMINI: Final = "x-goog-api-key"

_EVENTS: Final = "text/event-stream"

_AGAIN: Final = {"retry-after-ms": "10"}
"""When to try again, in milliseconds, for clients that know this header of errors; without it they would wait
for seconds."""

_BEFORE_THE_CUT: Final = ScriptedAnswer("cut", "This answer breaks off before its end.")


class ModelApp:
    """Answers requests to a model by the script of ``player``.

    ``guard`` refuses requests of pages of other sites, and those to another host.
    """

    def __init__(self, player: ScriptPlayer, guard: Guard) -> None:
        self._player: Final = player
        self._guard: Final = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = self._refusal(request) or await self._response(request)
        except ClientDisconnect:
            return
        await response(scope, receive, send)

    def _refusal(self, request: Request) -> Response | None:
        head = ParsedHead(request.method.encode(), request.url.path.encode(), b"1.1")
        head.fields = [(name, value, b"") for name, value in request.headers.raw]
        head.host = request.headers.get("host", "").encode("latin-1") or None
        try:
            self._guard.check(head)
        except Refusal as refused:
            return _error(refused.status, refused.why)
        except ValueError:
            return _error(400, "the Host field is not a host")
        return None

    async def _response(self, request: Request) -> Response:
        path = request.url.path
        if request.method in ("GET", "HEAD"):
            if "upgrade" in request.headers:
                return _error(426, "only HTTP/1.1 is spoken here")
            listed = models(
                path, is_gemini=_KEY_OF_GEMINI in request.headers or "key" in request.query_params
            )
            if listed is not None:
                return JSONResponse(listed)
            return Response() if path == "/" else _error(404, f"there is nothing at {path}")
        body = as_object(read(await _content(request)))
        if (writer := counting(path)) is not None:
            return JSONResponse(writer.counts)
        dialect = dialect_of(path, body or {})
        if dialect is None:
            return _error(404, f"there is no interface of a model at {path}")
        if body is None:
            return JSONResponse(WRITERS[dialect.name].error(400, "the body is no JSON object"), 400)
        return await self._scripted_response(request, dialect, body)

    async def _scripted_response(self, request: Request, dialect: Dialect, body: JSONObject) -> Response:
        writer = WRITERS[dialect.name]
        answer = self._player.answer(dialect.read_request(body), body)
        if answer.wait_s:
            await anyio.sleep(answer.wait_s)
        model = body.get("model")
        name = model if isinstance(model, str) else request.url.path.rpartition("/")[2].partition(":")[0]
        is_stream = body.get("stream") is True or ":stream" in request.url.path
        options: JSONObject = {**body, **request.query_params}
        if isinstance(answer, ScriptedFailure):
            if answer.status is None:
                cut = writer.stream(_BEFORE_THE_CUT, name, options)
                return _CutResponse(b"".join(cut), _EVENTS if is_stream else "application/json")
            status = writer.status(answer.status)
            message = answer.message or f"The script says {status}."
            return JSONResponse(writer.error(status, message), status, _AGAIN)
        if not is_stream:
            return JSONResponse(writer.body(answer, name))
        is_array = ":stream" in request.url.path and options.get("alt") != "sse"
        kind = "application/json" if is_array else _EVENTS
        return StreamingResponse(
            _as_async(writer.stream(answer, name, options)),
            media_type=kind,
            headers={"cache-control": "no-cache"},
        )


class _CutResponse(Response):
    """A response whose connection is closed in the middle of the body."""

    def __init__(self, content: bytes, media_type: str) -> None:
        super().__init__(content, media_type=media_type)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        half = bytes(self.body)[: len(self.body) // 2]
        await send({"type": "http.response.body", "body": half, "more_body": True})
        raise ConnectionAbortedError("the script says so")  # the server then closes the connection


async def _as_async(events: Iterator[bytes]) -> AsyncIterator[bytes]:
    for event in events:
        yield event


async def _content(request: Request) -> bytes:
    """Return the body of a request without its content coding."""
    body = await request.body()
    coding = decoder(request.headers.get("content-encoding", ""))
    return coding.feed(body) if coding is not None else body


def _error(status: int, message: str) -> Response:
    return JSONResponse(chat.error(status, message), status)
