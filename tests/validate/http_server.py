"""A small MCP server over HTTP that does everything right, made of parts that a flaw can replace.

It runs in the loop of the test. What it is depends on its kind: sessions with a handshake, requests that
carry their own version, both, or HTTP+SSE. What it has is what the scripted server on stdio has, and a little
more.
"""

import asyncio
import json
from base64 import b64decode
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from uuid import uuid4

from tests.validate.scripted import STATEFUL, STATELESS, Json, RefusedError, Server, text

Kind = Literal["stateful", "stateless", "dual", "older"]
Handler = Callable[["Asked"], "Said"]
SiteFlaw = Callable[["Site"], None]

FLAWS: Final[dict[str, SiteFlaw]] = {}
"""By name, what makes a good server a bad one."""

META: Final = "io.modelcontextprotocol/"
_SUBSCRIPTION: Final = f"{META}subscriptionId"
_MISMATCH: Final = -32020
_NAMED: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


def flaw(change: SiteFlaw) -> SiteFlaw:
    """A function that spoils a server, known by its name with hyphens."""
    FLAWS[change.__name__.replace("_", "-")] = change
    return change


@dataclass(slots=True)
class Asked:
    """A request over HTTP. Header names are in lower case, and ``names`` as they came."""

    method: str
    target: str
    headers: dict[str, str]
    names: list[str]
    body: bytes

    @property
    def message(self) -> Json:
        return json.loads(self.body)


@dataclass(slots=True)
class Said:
    """An answer. ``events`` make it a stream, which stays open if it ``lasts`` until the client goes."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    events: list[str] | None = None
    lasts: asyncio.Queue[str] | None = None


def told(message: Json, status: int = 200, **headers: str) -> Said:
    """A message as JSON."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Said(status, json.dumps(message).encode(), {"Content-Type": "application/json", **named})


def refused(code: int, why: str, status: int = 400, id: Json = None, data: Json = None) -> Said:
    """An error of JSON-RPC with a status."""
    error: dict[str, Json] = {"code": code, "message": why}
    if data is not None:
        error["data"] = data
    return told({"jsonrpc": "2.0", "id": id, "error": error}, status)


class Site:
    """The server. Flaws replace its methods, or those of ``modern``, which serves what has no session."""

    def __init__(self, kind: Kind) -> None:
        self.kind: Final = kind
        self.sessions: dict[str, Server] = {}
        self.streams: dict[str, asyncio.Queue[str]] = {}
        self.sent: dict[str, list[tuple[str, str]]] = {}
        """By session, the events that had an id, and the data of each."""
        self.count = 0
        self.host, self.port = "127.0.0.1", 0
        self.connections: set[asyncio.Task[None]] = set()
        self.is_dead = False
        """Only a flaw sets and heeds it."""
        self.is_guarded = False
        self.metadata: Json = {
            "resource": "http://127.0.0.1/",
            "authorization_servers": ["http://auth.invalid"],
        }
        self.modern = self.a_server()

    # What it has

    def a_server(self) -> Server:
        server = Server()
        server.tools += [
            {
                "name": "ask",
                "description": "Asks for a name.",
                "inputSchema": {"type": "object"},
                "annotations": {"readOnlyHint": True},
            },
            {
                "name": "weigh",
                "description": "Weighs a thing.",
                "inputSchema": {
                    "type": "object",
                    "properties": {"thing": {"type": "string", "x-mcp-header": "Thing"}},
                },
                "annotations": {"readOnlyHint": True},
            },
        ]
        declared, good = server.declared, server.call
        server.declared = lambda revision: {**declared(revision), "resources": {"subscribe": True}}
        server.methods["tools/call"] = lambda params: self.called(params, good)
        return server

    def called(self, params: dict[str, Any], good: Callable[[dict[str, Any]], Json]) -> Json:
        if params.get("name") == "weigh":
            return text("It is light.")
        if params.get("name") != "ask":
            return good(params)
        return self.ask(params)

    def ask(self, params: dict[str, Any]) -> Json:
        declared = params.get("_meta", {}).get(f"{META}clientCapabilities")
        if declared is None:
            return text("Hello, whoever you are!")
        answers = params.get("inputResponses", {})
        if "name" in answers:
            return text("Hello!")
        return self.asking(declared)

    def asking(self, declared: Json) -> Json:
        if "elicitation" not in declared:
            needed: Json = {"requiredCapabilities": {"elicitation": {}}}
            raise RefusedError(-32021, "elicitation is needed", needed)
        form = {
            "type": "object",
            "properties": {"name": {"type": "string"}},
            "required": ["name"],
        }
        wanted = {"mode": "form", "message": "Who are you?", "requestedSchema": form}
        return {
            "resultType": "input_required",
            "inputRequests": {"name": {"method": "elicitation/create", "params": wanted}},
            "requestState": "a-state",
        }

    # Whom it serves

    def handle(self, asked: Asked) -> Said:
        """Everything; the rest are its parts."""
        if not self.trusts(asked.headers.get("origin")):
            return Said(403)
        if asked.target.startswith("/.well-known/"):
            return self.well_known()
        if self.is_guarded and not self.lets_in(asked.headers.get("authorization", "")):
            return Said(401, b"", {"WWW-Authenticate": 'Bearer error="invalid_token"'})
        if self.kind == "older":
            return self.older(asked)
        if asked.method == "POST":
            return self.post(asked)
        if self.kind == "stateless":
            return self.retired()
        return self.listen(asked) if asked.method == "GET" else self.delete(asked)

    def trusts(self, origin: str | None) -> bool:
        return origin is None or "://127.0.0.1" in origin

    def lets_in(self, authorization: str) -> bool:
        return False

    def well_known(self) -> Said:
        return told(self.metadata) if self.is_guarded and self.metadata else Said(404)

    def retired(self) -> Said:
        return Said(405, b"", {"Allow": "POST"})

    def post(self, asked: Asked) -> Said:
        if not self.accepts(asked.headers.get("accept", "")):
            return self.unacceptable(asked)
        try:
            message = asked.message
        except ValueError:
            return refused(-32700, "Parse error")
        if self.is_modern(asked, message):
            return self.stateless(asked, message)
        return self.stateful(asked, message)

    def is_modern(self, asked: Asked, message: Json) -> bool:
        if self.kind != "dual":
            return self.kind == "stateless"
        meta = message.get("params", {}).get("_meta", {})
        return asked.headers.get("mcp-protocol-version") in STATELESS or f"{META}protocolVersion" in meta

    def accepts(self, accept: str) -> bool:
        return "*/*" in accept or ("application/json" in accept and "text/event-stream" in accept)

    def unacceptable(self, asked: Asked) -> Said:
        return Said(406)

    # Sessions

    def new_id(self) -> str:
        return uuid4().hex

    def stateful(self, asked: Asked, message: Json) -> Said:
        if message.get("method") == "initialize":
            return self.initialize(message)
        id = asked.headers.get("mcp-session-id")
        if id is None:
            return self.nameless()
        if id not in self.sessions:
            return self.unknown_session(id)
        if not self.knows_version(asked.headers.get("mcp-protocol-version")):
            return refused(-32000, "Unsupported protocol version")
        if "method" not in message or "id" not in message:
            return self.heard(id, message)
        answer = self.sessions[id].answer(message)
        return self.streamed(id, answer)

    def initialize(self, message: Json) -> Said:
        server = self.a_server()
        answer = server.answer(message)
        if "error" in answer:
            return told(answer)
        id = self.new_id()
        self.sessions[id] = server
        return told(answer, Mcp_Session_Id=id)

    def nameless(self) -> Said:
        return refused(-32000, "Mcp-Session-Id is missing")

    def unknown_session(self, id: str, /) -> Said:
        return refused(-32001, "Session not found", 404)

    def knows_version(self, version: str | None) -> bool:
        return version is None or version in STATEFUL

    def heard(self, id: str, message: Json) -> Said:
        if "method" in message:
            self.sessions[id].notified(message)
            return self.notified()
        return self.answered()

    def notified(self) -> Said:
        return Said(202)

    def answered(self) -> Said:
        return Said(202)

    def streamed(self, id: str, answer: Json) -> Said:
        """A stream that begins with an empty event, so that it can be taken up again."""
        self.count += 1
        events: list[str] = []
        for number, data in enumerate(("", json.dumps(answer))):
            name = f"{self.count}-{number}"
            self.sent.setdefault(id, []).append((name, data))
            events.append(f"id: {name}\ndata: {data}\n\n")
        return Said(200, events=events)

    def listen(self, asked: Asked) -> Said:
        id = asked.headers.get("mcp-session-id", "")
        if id not in self.sessions:
            return self.unknown_session(id) if id else self.nameless()
        last = asked.headers.get("last-event-id")
        missed = self.missed(id, last) if last else []
        events = [f"id: {name}\ndata: {data}\n\n" for name, data in missed]
        return Said(200, events=[": welcome\n\n", *events], lasts=asyncio.Queue())

    def missed(self, id: str, last: str) -> list[tuple[str, str]]:
        stream = last.partition("-")[0]
        sent = self.sent.get(id, [])
        names = [name for name, _ in sent]
        after = sent[names.index(last) + 1 :] if last in names else []
        return [(name, data) for name, data in after if name.partition("-")[0] == stream]

    def delete(self, asked: Asked) -> Said:
        id = asked.headers.get("mcp-session-id", "")
        if self.sessions.pop(id, None) is None:
            return self.unknown_session(id)
        return Said(204)

    # Requests that carry their own version

    def stateless(self, asked: Asked, message: Json) -> Said:
        if "id" not in message:
            return self.notified()
        id, params = message["id"], message.get("params", {})
        meta = params.get("_meta", {})
        version = meta.get(f"{META}protocolVersion")
        if message["method"] == "initialize" and version is None:
            return self.too_old(id)
        if fault := self.header_fault(asked, message):
            return refused(_MISMATCH, fault, id=id)
        if version is None or (version in STATELESS and f"{META}clientCapabilities" not in meta):
            return self.incomplete(id, message)
        if version not in STATELESS:
            return self.unsupported(id, version, message)
        if message["method"] == "subscriptions/listen":
            return self.subscribed(id, params["notifications"])
        return self.served(message)

    def served(self, message: Json) -> Said:
        answer = self.modern.answer(message)
        code = answer.get("error", {}).get("code")
        status = 404 if code == -32601 else 400 if code == -32021 else 200
        return told(answer, status)

    def too_old(self, id: Json, /) -> Said:
        return refused(-32022, "There is no initialize", id=id, data={"supported": list(STATELESS)})

    def incomplete(self, id: Json, /, message: Json) -> Said:
        return refused(-32602, "_meta is incomplete", id=id)

    def unsupported(self, id: Json, /, version: str, message: Json) -> Said:
        return refused(
            -32022, "Unsupported", id=id, data={"supported": list(STATELESS), "requested": version}
        )

    def header_fault(self, asked: Asked, message: Json) -> str:
        """What is wrong with the headers that repeat the body."""
        params = message.get("params", {})
        given = asked.headers
        version = params.get("_meta", {}).get(f"{META}protocolVersion")
        if "mcp-protocol-version" not in given:
            return "MCP-Protocol-Version is missing"
        if version is not None and given["mcp-protocol-version"] != version:
            return "MCP-Protocol-Version differs"
        if given.get("mcp-method") != message["method"]:
            return "Mcp-Method differs"
        source = _NAMED.get(message["method"])
        if source and self.decoded(given.get("mcp-name", "")) != params.get(source):
            return "Mcp-Name differs"
        thing = params.get("arguments", {}).get("thing")
        if params.get("name") == "weigh" and given.get("mcp-param-thing") != thing:
            return "Mcp-Param-Thing differs"
        return ""

    def decoded(self, value: str) -> str:
        if value.startswith("=?base64?") and value.endswith("?="):
            return b64decode(value[9:-2]).decode()
        return value

    def subscribed(self, id: Json, /, wanted: Json) -> Said:
        granted = {name: value for name, value in wanted.items() if name == "resourceSubscriptions"}
        params = {"_meta": {_SUBSCRIPTION: id}, "notifications": granted}
        said = {
            "jsonrpc": "2.0",
            "method": "notifications/subscriptions/acknowledged",
            "params": params,
        }
        return Said(
            200,
            headers={"X-Accel-Buffering": "no"},
            events=[f"data: {json.dumps(said)}\n\n"],
            lasts=asyncio.Queue(),
        )

    # HTTP+SSE

    def older(self, asked: Asked) -> Said:
        path, _, id = asked.target.partition("?session=")
        if asked.method == "GET" and path == "/mcp":
            id = self.new_id()
            self.sessions[id] = self.a_server()
            self.streams[id] = asyncio.Queue()
            return Said(200, events=[self.endpoint(id)], lasts=self.streams[id])
        if asked.method != "POST" or path != "/messages":
            return Said(405)
        if id not in self.sessions:
            return Said(404)
        try:
            message = asked.message
        except ValueError:
            return Said(400)
        if "method" in message and "id" in message:
            answer = self.sessions[id].answer(message)
            self.streams[id].put_nowait(f"event: message\ndata: {json.dumps(answer)}\n\n")
        elif "method" in message:
            self.sessions[id].notified(message)
        return Said(202, b"Accepted", {"Content-Type": "text/plain"})

    def endpoint(self, id: str, /) -> str:
        return f"event: endpoint\ndata: /messages?session={id}\n\n"

    # Connections

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, for as long as it lasts."""
        task = asyncio.current_task()
        assert task is not None
        self.connections.add(task)
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while asked := await _read(reader):
                await self.answer(self.handle(asked), reader, writer)
        writer.close()
        self.connections.discard(task)

    async def answer(self, said: Said, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        headers = dict(said.headers)
        if said.events is None:
            headers["Content-Length"] = str(len(said.body))
        else:
            headers |= {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {said.status} X\r\n{lines}\r\n".encode("latin-1"))
        if said.events is None:
            writer.write(said.body)
        else:
            for event in said.events:
                _chunk(writer, event)
            if said.lasts is not None:
                await _last(said.lasts, reader, writer)
            writer.write(b"0\r\n\r\n")
        await writer.drain()


async def _last(
    events: asyncio.Queue[str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """What comes on a stream until the client goes."""
    leaving = asyncio.create_task(reader.read())
    while not leaving.done():
        coming = asyncio.create_task(events.get())
        await asyncio.wait((leaving, coming), return_when=asyncio.FIRST_COMPLETED)
        if not coming.done():
            coming.cancel()
            raise ConnectionError
        _chunk(writer, coming.result())
        await writer.drain()


def _chunk(writer: asyncio.StreamWriter, event: str) -> None:
    data = event.encode()
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


async def _read(reader: asyncio.StreamReader) -> Asked | None:
    line = await reader.readline()
    if not line:
        return None
    method, target, _ = line.decode("latin-1").split(" ", 2)
    headers: dict[str, str] = {}
    names: list[str] = []
    while field_line := (await reader.readline()).decode("latin-1").rstrip("\r\n"):
        name, _, value = field_line.partition(":")
        names.append(name)
        headers[name.lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(method, target, headers, names, body)


@asynccontextmanager
async def serving(site: Site) -> AsyncGenerator[str]:
    """The URL of a server that runs until the end."""
    server = await asyncio.start_server(site.serve, site.host, 0)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield f"http://{site.host}:{site.port}/mcp"
    finally:
        server.close()
        for task in tuple(site.connections):
            task.cancel()
        await asyncio.gather(*site.connections, return_exceptions=True)
