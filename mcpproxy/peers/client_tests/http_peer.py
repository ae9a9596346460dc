"""The HTTP server of a scenario (one test of a client): an ordinary one, unless a script does otherwise.

An HTTP script gets the ``ScriptedEndpoint`` and one ``ScriptedExchange``, and responds. If it returns
``False`` instead, the endpoint responds as an ordinary server, and answers the message by the scripts of the
scenario that also work on stdio. A stateless request, of a revision without a handshake, has no session.
"""

import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from secrets import token_hex
from typing import Final
from urllib.parse import urlsplit

from mcpproxy.peers.client_tests.peer import MOST_REQUESTS, Script, ScriptedServer
from mcpproxy.protocol.header_names import SESSION_ID
from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.protocol.message_parts import object_in, text_member
from mcpproxy.protocol.meta_keys import VERSION_KEY
from mcpproxy.protocol.revisions import Era

ENDPOINT: Final = "/mcp"
"""The path of the MCP endpoint of each server."""

_BODY_BYTES: Final = 16 << 20
"""The longest body of a request. A longer one is refused with 413, and so is one of unknown length: with a
transfer coding, or a Content-Length that is no number."""

_SILENCE_S: Final = 120
"""A connection is closed after so many seconds without a byte."""

Headers = Mapping[str, str]


class ScriptedExchange:
    """One request of the client over HTTP, and the response to it.

    ``method`` is the HTTP method. ``headers`` have names in lower case. ``message`` is the body, ``None`` if
    that is no JSON object.
    """

    def __init__(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        self._handler: Final = handler
        self._chunked = False
        self.method: Final = handler.command
        self.path: Final = urlsplit(handler.path).path
        self.query: Final = urlsplit(handler.path).query
        self.headers: Final = {name.lower(): value for name, value in handler.headers.items()}
        self.body: Final = body
        self.message: Final = object_in(body)

    @property
    def request_method(self) -> str:
        """The method of the request in the body; empty if there is none."""
        message = self.message or {}
        method = message.get("method")
        return method if isinstance(method, str) and "id" in message else ""

    @property
    def version(self) -> str:
        """The revision that a stateless request names; empty for others."""
        return text_member((self.message or {}).get("params"), "_meta", VERSION_KEY) or ""

    def respond(self, status: int, body: bytes = b"", headers: Headers | None = None) -> None:
        """Respond with a whole body."""
        self._send_head(status, {**(headers or {}), "Content-Length": str(len(body))})
        self._handler.wfile.write(body)

    def respond_json(self, message: JSONObject, status: int = 200, headers: Headers | None = None) -> None:
        """Respond with a JSON object."""
        body = json.dumps(message).encode()
        self.respond(status, body, {"Content-Type": "application/json", **(headers or {})})

    def begin_chunks(self, status: int, headers: Headers) -> None:
        """Send the head of a response whose body comes in pieces."""
        self._chunked = True
        self._send_head(status, {**headers, "Transfer-Encoding": "chunked"})

    def begin_stream(self, headers: Headers | None = None) -> None:
        """Send the head of a response that is a stream of events."""
        fixed = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        self.begin_chunks(200, {**fixed, **(headers or {})})

    def send_piece(self, raw: bytes) -> None:
        """Send a piece of the body."""
        self._handler.wfile.write(b"%x\r\n%s\r\n" % (len(raw), raw))
        self._handler.wfile.flush()

    def send_event(self, message: JSONObject | None, event_id: str = "", retry_ms: int = 0) -> None:
        """Send an event of a stream. Without a message its data are empty.

        An empty ``event_id`` and a ``retry_ms`` of 0 are left out.
        """
        fields = [f"id: {event_id}"] if event_id else []
        fields += [f"retry: {retry_ms}"] if retry_ms else []
        fields.append(f"data: {'' if message is None else json.dumps(message)}")
        self.send_piece("".join(f"{field}\n" for field in (*fields, "")).encode())

    def end_chunks(self) -> None:
        """End a body that comes in pieces; do nothing if none was begun."""
        if self._chunked:
            self._handler.wfile.write(b"0\r\n\r\n")
            self._handler.wfile.flush()

    def cut_off(self) -> None:
        """Close the connection without the end of the body."""
        self._handler.close_connection = True

    def _send_head(self, status: int, headers: Headers) -> None:
        self._handler.send_response_only(status)
        for name, value in headers.items():
            self._handler.send_header(name, value)
        self._handler.end_headers()


class EndpointSession(ScriptedServer):
    """One session, or one stateless request. Its messages are sent in the response of the current exchange.

    An answer alone is sent as a JSON body; anything else as a stream of events. The arguments are those of
    ``ScriptedServer``.
    """

    def __init__(
        self, scripts: Mapping[str, Script], capabilities: JSONObject, eras: Collection[Era]
    ) -> None:
        super().__init__(scripts, capabilities, eras, None)
        self._turn: Final = threading.Lock()
        self._exchange: ScriptedExchange | None = None
        self._headers: Headers = {}
        self._held = b""
        self._is_streaming = False

    def answer(self, exchange: ScriptedExchange, headers: Headers) -> None:
        """Answer the request of an exchange, with ``headers`` in its response.

        If the scripts send nothing, there is no response.
        """
        assert exchange.message is not None
        with self._turn:
            self._exchange, self._headers = exchange, headers
            self._held, self._is_streaming = b"", False
            self.answer_message(exchange.message)
            if self._is_streaming:
                exchange.end_chunks()
            elif self._held:
                exchange.respond(200, self._held, {"Content-Type": "application/json", **headers})

    def write(self, raw: bytes) -> None:
        """Send a message of the server. An answer is held back until it is known whether it comes alone."""
        message, exchange = object_in(raw), self._exchange
        assert exchange is not None
        is_answer = message is not None and "method" not in message
        if is_answer and not self._held and not self._is_streaming:
            self._held = raw
            return
        if not self._is_streaming:
            self._is_streaming = True
            exchange.begin_stream(self._headers)
            if self._held:
                exchange.send_event(object_in(self._held))
        exchange.send_event(message)


class ScriptedEndpoint:
    """The server of one scenario. Scripts count requests in ``seen``, and keep objects in ``kept``.

    ``script`` responds to exchanges. ``scripts`` answer messages, and have the ``capabilities`` and ``eras``
    of the scenario.
    """

    def __init__(
        self,
        script: "HttpScript",
        scripts: Mapping[str, Script],
        capabilities: JSONObject,
        eras: Collection[Era],
    ) -> None:
        self.seen: Final[Counter[str]] = Counter()
        self.kept: Final[dict[str, JSONObject]] = {}
        self._script: Final = script
        self._scripts: Final = scripts
        self._capabilities: Final = capabilities
        self._eras: Final = eras
        self._sessions: Final[dict[str, EndpointSession]] = {}
        self._server: Final = ThreadingHTTPServer(("127.0.0.1", 0), _handler_class(self))
        self._server.daemon_threads = True
        self.origin: Final = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.url: Final = f"{self.origin}{ENDPOINT}"

    def serve(self) -> None:
        """Answer until the process ends."""
        self._server.serve_forever()

    def answer(self, exchange: ScriptedExchange) -> None:
        """Answer one exchange; after ``MOST_REQUESTS`` of them, end the process instead."""
        self.seen["exchanges"] += 1
        if self.seen["exchanges"] > MOST_REQUESTS:
            os._exit(0)
        if not self._script(self, exchange):
            self.answer_normally(exchange)

    def answer_normally(self, exchange: ScriptedExchange) -> None:
        """Answer as an ordinary server, which has no GET stream."""
        if exchange.path != ENDPOINT:
            exchange.respond(404)
        elif exchange.method == "POST" and exchange.message is not None:
            self._answer_post(exchange, exchange.message)
        elif exchange.method == "DELETE":
            gone = self._sessions.pop(exchange.headers.get(SESSION_ID, ""), None)
            if gone is not None:
                gone.receive(b"")  # a script that waits for an answer waits no longer
            exchange.respond(404 if gone is None else 200)
        else:
            exchange.respond(405, headers={"Allow": "POST, DELETE"})

    def forget_sessions(self) -> None:
        """Lose all sessions."""
        self._sessions.clear()

    def knows(self, exchange: ScriptedExchange) -> bool:
        """Whether an exchange belongs to a known session, or is stateless."""
        return exchange.headers.get(SESSION_ID, "") in self._sessions or exchange.version != ""

    def answer_alone(self, exchange: ScriptedExchange) -> None:
        """Answer a request that belongs to no session."""
        self._new_session().answer(exchange, {})

    def _answer_post(self, exchange: ScriptedExchange, message: JSONObject) -> None:
        if exchange.version:
            self.answer_alone(exchange)
            return
        if exchange.request_method == "initialize":
            session_id, session = token_hex(16), self._new_session()
            self._sessions[session_id] = session
            session.answer(exchange, {"Mcp-Session-Id": session_id})
            return
        session = self._sessions.get(exchange.headers.get(SESSION_ID, ""))
        if session is None:
            exchange.respond(404 if SESSION_ID in exchange.headers else 400)
        elif exchange.request_method:
            session.answer(exchange, {})
        else:
            if "method" not in message:  # scripts wait only for answers
                session.receive(json.dumps(message).encode())
            exchange.respond(202)

    def _new_session(self) -> EndpointSession:
        return EndpointSession(self._scripts, self._capabilities, self._eras)


HttpScript = Callable[[ScriptedEndpoint, ScriptedExchange], bool]
"""Responds to one request of the client over HTTP and returns ``True``, or returns ``False``."""


def plain(peer: ScriptedEndpoint, exchange: ScriptedExchange) -> bool:
    """Respond to all exchanges as an ordinary server: only the answers to messages differ."""
    del peer, exchange
    return False


def _handler_class(peer: ScriptedEndpoint) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = _SILENCE_S

        def answer(self) -> None:
            length = self.headers.get("Content-Length", "0")
            if not length.isdecimal() or int(length) > _BODY_BYTES or "Transfer-Encoding" in self.headers:
                self.close_connection = True
                self.send_error(413)
                return
            try:
                peer.answer(ScriptedExchange(self, self.rfile.read(int(length))))
            except OSError:  # the client has gone
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    for verb in ("GET", "POST", "DELETE", "OPTIONS"):
        setattr(Handler, f"do_{verb}", Handler.answer)
    return Handler
