"""``mcpproxy http --enforce``: a refused request is answered here, and the server never sees it."""

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from mcpproxy import api
from mcpproxy.judge.session.frame import Event, Finding, Frame, Note, ResponseHead
from mcpproxy.record.trace.reader import read_trace
from tests.peers.web_server import WebServer
from tests.relay.hosts import DEADLINE_S, HOME, until_recorded

INFO: Final = {"name": "example", "version": "1.0"}
MODERN: Final = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": INFO,
    "io.modelcontextprotocol/clientCapabilities": {},
}
SESSION: Final = {"Mcp-Session-Id": "0123456789abcdef0123", "MCP-Protocol-Version": "2025-06-18"}
Message = dict[str, Any]


class Server(WebServer):
    """Remembers what it was sent; answers initialize, and anything else with its tools: none."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.heard: list[Any] = []
        self.tools: list[Message] = []


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        del format, args

    def do_POST(self) -> None:
        assert isinstance(self.server, Server)
        message = json.loads(self._body())
        self.server.heard.append(message)
        result: Message = {"tools": self.server.tools}
        if message.get("method") == "initialize":
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": INFO}
        answer = json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": result}).encode()
        body = answer if "id" in message else b""
        self.send_response(200 if body else 202)
        if body:
            self.send_header("Content-Type", "application/json")
            self.send_header("Mcp-Session-Id", SESSION["Mcp-Session-Id"])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _body(self) -> bytes:
        if "Content-Length" in self.headers:
            return self.rfile.read(int(self.headers["Content-Length"]))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body


class Answer(NamedTuple):
    status: int
    body: Any


class Proxied:
    """A proxy with ``options`` before ``server``, and a client's connection to it.

    ``program`` is the module that is run.
    """

    def __init__(self, folder: Path, server: Server, *options: str, program: str = "mcpproxy") -> None:
        self.trace = folder / "http.jsonl"
        upstream = f"http://127.0.0.1:{server.server_port}/mcp"
        command = [
            sys.executable,
            "-m",
            program,
            "http",
            upstream,
            "--listen",
            "127.0.0.1:0",
        ]
        self.process = subprocess.Popen(
            [*command, "--trace", str(self.trace), *options],
            stderr=subprocess.PIPE,
            env=HOME,
            text=True,
        )
        assert self.process.stderr is not None
        found = re.search(r"http://127\.0\.0\.1:(\d+)/mcp", self.process.stderr.readline())
        assert found is not None
        self.connection = HTTPConnection("127.0.0.1", int(found[1]), timeout=DEADLINE_S)

    def post(self, message: Message, **headers: str) -> Answer:
        """``http.client`` opens a new connection by itself when the last was closed."""
        usual = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        self.connection.request("POST", "/mcp", json.dumps(message), {**usual, **headers})
        response = self.connection.getresponse()
        body = response.read()
        return Answer(response.status, json.loads(body) if body else None)

    def post_in_chunks(self, message: Message, **headers: str) -> Answer:
        raw = json.dumps(message).encode()
        self.connection.request(
            "POST",
            "/mcp",
            iter((raw[:7], raw[7:])),
            {"Content-Type": "application/json", **headers},
            encode_chunked=True,
        )
        response = self.connection.getresponse()
        return Answer(response.status, json.loads(response.read()))

    def open(self) -> None:
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": INFO}
        assert self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).status == 200
        assert self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, **SESSION).status == 202

    def stop(self) -> list[Event | Finding]:
        """End the proxy; what it recorded."""
        self.connection.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=DEADLINE_S)
        until_recorded(self.trace)
        return list(read_trace(str(self.trace)).events())


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join(DEADLINE_S)


@pytest.fixture(params=["mcpproxy", "tests.relay.portable_command"])
def proxied(request: pytest.FixtureRequest, tmp_path: Path, server: Server) -> Iterator[Proxied]:
    proxied = Proxied(tmp_path, server, "--enforce", "PROTO-009,STAT-001", program=request.param)
    yield proxied
    proxied.connection.close()
    proxied.process.kill()
    proxied.process.communicate(timeout=DEADLINE_S)


def asked(id: int, method: str, **params: object) -> Message:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def test_a_request_in_a_session_is_refused_with_200_and_has_not_happened(
    server: Server, proxied: Proxied
) -> None:
    proxied.open()
    refused = proxied.post(asked(1, "prompts/list"), **SESSION)
    again = proxied.post(asked(1, "tools/list"), **SESSION)
    told = proxied.stop()
    assert refused.status == 200
    assert refused.body["id"] == 1
    assert refused.body["error"]["code"] == -32600
    assert refused.body["error"]["data"] == {
        "rule": "PROTO-009",
        "requirement": "R-044",
        "source": "https://modelcontextprotocol.io/specification/2025-06-18/basic/lifecycle#operation",
        "pointer": "/method",
    }
    assert again.body["result"] == {"tools": []}
    assert [message["method"] for message in server.heard] == [
        "initialize",
        "notifications/initialized",
        "tools/list",
    ]
    assert [(f.rule, f.blame) for f in told if isinstance(f, Finding)] == [("PROTO-009", "client")]
    assert [r.status for r in told if isinstance(r, ResponseHead) and r.by_proxy] == [200]
    assert [json.loads(f.raw)["id"] for f in told if isinstance(f, Frame) and f.by_proxy] == [1]
    assert [n.why for n in told if isinstance(n, Note) and n.what == "refused"] == [
        "PROTO-009: client sent prompts/list, but the server never declared prompts"
    ]
    # As on stdio, the refused request is no call of the session.
    assert [call.method for call in api.open_trace(proxied.trace).calls()] == ["initialize", "tools/list"]


def test_a_request_that_stands_alone_is_refused_with_400(server: Server, proxied: Proxied) -> None:
    bare = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}
    refused = proxied.post(asked(1, "tools/list", _meta=bare), **headers)
    passed = proxied.post(asked(2, "tools/list", _meta=MODERN), **headers)
    assert (refused.status, refused.body["error"]["data"]["rule"]) == (400, "STAT-001")
    assert passed.status == 200
    assert [message["id"] for message in server.heard] == [2]


def test_a_body_in_chunks_is_held_until_it_is_whole(server: Server, proxied: Proxied) -> None:
    proxied.open()
    assert proxied.post_in_chunks(asked(1, "tools/list"), **SESSION).body["id"] == 1
    assert "error" in proxied.post_in_chunks(asked(2, "prompts/list"), **SESSION).body
    assert len(server.heard) == 3


def test_what_waits_to_be_asked_for_passes_and_the_trace_says_so(proxied: Proxied) -> None:
    proxied.open()
    passed = proxied.post(asked(1, "prompts/list"), Expect="100-continue", **SESSION)
    told = proxied.stop()
    assert passed.status in (100, 200)
    assert [n.why for n in told if isinstance(n, Note) and n.what == "unjudged"] == [
        "a body that waits to be asked for"
    ]


def test_a_long_request_passes_whole_and_is_recorded(server: Server, proxied: Proxied) -> None:
    proxied.open()
    sizes = (150_000, 1_000_000, 5)
    asked_for = [asked(number, "tools/list", filler="x" * size) for number, size in enumerate(sizes, 1)]
    for message in asked_for:
        assert proxied.post(message, **SESSION).body["result"] == {"tools": []}
    told = proxied.stop()
    assert server.heard[2:] == asked_for
    frames = [json.loads(f.raw) for f in told if isinstance(f, Frame) and f.sender == "client"]
    assert frames[2:] == asked_for


def test_a_forward_proxy_enforces_nothing() -> None:
    command = [sys.executable, "-m", "mcpproxy", "http", "--forward", "--enforce", "PROTO-009"]
    done = subprocess.run(command, capture_output=True, env=HOME, text=True, timeout=DEADLINE_S)
    assert done.returncode == 2
    assert done.stderr.startswith("mcpproxy: http: --enforce is not for --forward")
