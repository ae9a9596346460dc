"""``mcpproxy mcp`` over Streamable HTTP, behind the guards of the page: Host, Origin and a token.

The SDK answers two kinds of wrong bodies with errors other than the specified ones, so this module refuses
them first: JSON that is not a message of JSON-RPC, and a request whose header names another revision than
its body.
"""

import logging
from typing import Final

import anyio
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.requests import Request as HttpRequest
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcpproxy.protocol.error_message import HEADER_MISMATCH, INVALID_REQUEST, error_message
from mcpproxy.protocol.header_names import PROTOCOL_VERSION
from mcpproxy.protocol.jsonrpc import (
    NOT_JSON,
    Absent,
    Batch,
    ErrorResponse,
    Malformed,
    Request,
    RequestId,
    parse,
)
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.raw_json import written
from mcpproxy.protocol.request_headers import stateless_version
from mcpproxy.show.agents.recording_server import RecordingServer
from mcpproxy.show.agents.request_text import whole_characters
from mcpproxy.show.ui.request_body import BodyTooLargeError, read_body

PATH: Final = "/mcp"

STATUS_WITHOUT_TOKEN: Final = 403
"""The status of the answer to a request without the token. After 401 clients look for an authorization
server, and there is none."""

_MAX_BODY_BYTES: Final = 1 << 20


def app(server: RecordingServer) -> ASGIApp:
    """Return the application for ``PageServer``, whose guards stand before it; those of the SDK are off."""
    # If a session ends while its notification is handled, the SDK logs a traceback; see ``_OneAnswer``.
    logging.getLogger("mcp.server.streamable_http").addHandler(logging.NullHandler())
    return RequestChecks(
        server.server.streamable_http_app(
            streamable_http_path=PATH,
            json_response=True,
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )
    )


class RequestChecks:
    """Wraps the application of the SDK, and refuses requests that the SDK would answer with a wrong error.

    A body of more than ``_MAX_BODY_BYTES`` is refused as well.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app: Final = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        try:
            body = await read_body(HttpRequest(scope, receive), _MAX_BODY_BYTES)
        except BodyTooLargeError as fault:
            await PlainTextResponse(f"{fault}\n", 413)(scope, receive, send)
            return
        body = whole_characters(body.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        if refusal := _refusal(Headers(scope=scope), body):
            await refusal(scope, receive, send)
            return
        is_read = False

        async def receive_again() -> Message:
            nonlocal is_read
            if is_read:
                return await receive()
            is_read = True
            return {"type": "http.request", "body": body, "more_body": False}

        answer = _OneAnswer(send)
        try:
            await self._app(scope, receive_again, answer)
        except anyio.ClosedResourceError:
            if not answer.is_complete:
                raise


class _OneAnswer:
    """A ``send`` function that drops messages after the end of the answer.

    If a session ends while its notification is handled, the SDK answers 202, then 500, and raises an
    exception. A second answer, or an exception, makes uvicorn close the connection, on which the client may
    have sent its next request.
    """

    def __init__(self, send: Send) -> None:
        self._send: Final = send
        self.is_complete = False

    async def __call__(self, message: Message) -> None:
        if not self.is_complete:
            is_body = message["type"] == "http.response.body"
            self.is_complete = is_body and not message.get("more_body", False)
            await self._send(message)


def _refusal(headers: Headers, body: bytes) -> Response | None:
    """Return the answer to a body that the SDK must not see; ``None`` if the SDK answers it correctly."""
    match parse(body):
        case Malformed(flaw=flaw, value=value) if flaw not in NOT_JSON:
            id = member(value, "id")
            return _bad_request(
                id if isinstance(id, str | int) else None, INVALID_REQUEST, "not a request of JSON-RPC"
            )
        case ErrorResponse(error=Absent()) | Batch(items=()):  # an id alone, and an empty array
            return _bad_request(None, INVALID_REQUEST, "not a request of JSON-RPC")
        case Request(id=id) as request if version := stateless_version(request):
            if headers.get(PROTOCOL_VERSION, version) != version:
                return _bad_request(
                    id, HEADER_MISMATCH, "MCP-Protocol-Version differs from the revision in the body"
                )
        case _:
            pass
    return None


def _bad_request(id: RequestId | None, code: int, text: str) -> Response:
    id_bytes = None if id is None else written(id)
    return Response(error_message(code, text, id_bytes), 400, media_type="application/json")
