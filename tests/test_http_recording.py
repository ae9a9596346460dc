"""``mcpproxy http`` from end to end: a server, the proxy, its recorder, and the trace of it."""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from mcpproxy.judge.session.frame import Finding, Frame, RequestHead, ResponseHead
from mcpproxy.read.opening import follow, open_trace
from tests.peers.web_server import WebServer
from tests.relay.hosts import until_recorded
from tests.trace.bodies import body_bytes

DEADLINE_S = 60
SESSION_ID = "3f7b1e0a-0000-4000-8000-c0ffee000001"
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
EVENTS = b': hello\n\nevent: message\nid: 7\ndata: {"jsonrpc":"2.0","id":1,"result":{}}\n\n'
BIG = b'"' + b"x" * (3 << 20) + b'"'


class Server(BaseHTTPRequestHandler):
    """Answers every POST with an event stream, and /big with what was posted."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = body if self.path == "/big" else EVENTS
        self.send_response(200)
        self.send_header("Content-Type", "application/json" if self.path == "/big" else "text/event-stream")
        self.send_header("Mcp-Session-Id", SESSION_ID)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Not a word on stderr."""


class Proxy:
    """A running ``mcpproxy http``."""

    def __init__(self, trace: Path, upstream: int) -> None:
        where = [f"http://127.0.0.1:{upstream}/mcp", "--listen", "127.0.0.1:0"]
        command = [sys.executable, "-m", "mcpproxy", "http", *where, "--trace", str(trace)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        self.greeting = self.process.stderr.readline()
        self.port = int(self.greeting.partition("http://127.0.0.1:")[2].partition("/")[0])

    def post(self, path: str, body: bytes) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)
        headers = {"Authorization": "Bearer s3cret", "Content-Type": "application/json"}
        connection.request("POST", path, body, headers)
        answer = connection.getresponse().read()
        connection.close()
        return answer

    def end(self, number: int) -> str:
        """Send the signal, and wait until the proxy and its recorder have let go of stderr."""
        self.process.send_signal(number)
        return self.process.communicate(timeout=DEADLINE_S)[1]


@contextmanager
def served() -> Generator[int]:
    server = WebServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_what_passes_is_recorded(tmp_path: Path, number: int) -> None:
    trace = tmp_path / "h.jsonl"
    with served() as upstream:
        proxy = Proxy(trace, upstream)
        assert proxy.post("/mcp", PING) == EVENTS
        assert proxy.post("/big", BIG) == BIG
        said = proxy.end(number)
    if number == signal.SIGTERM:
        assert proxy.process.returncode == 0
        assert "2 frames from the client, 3 from the server" in said or "the recorder is not done" in said
    assert list(follow(trace))  # to its end: the recorder of a killed proxy may still be at it
    opened = open_trace(trace)
    records = list(opened.records())
    is_cut = number == signal.SIGKILL
    assert opened.notes == ["the recording was cut: mcpproxy was killed before the session ended"] * is_cut
    assert body_bytes(records, 1, "client") == PING
    assert body_bytes(records, 1, "server") == EVENTS
    assert body_bytes(records, 2, "client") == body_bytes(records, 2, "server") == BIG
    assert [type(r) for r in records if isinstance(r, RequestHead | ResponseHead | Frame)][:3] == [
        RequestHead,
        Frame,
        ResponseHead,
    ]
    text = trace.read_text()
    assert "s3cret" not in text
    assert SESSION_ID not in text


def test_judged_alike_later(tmp_path: Path) -> None:
    trace = tmp_path / "h.jsonl"
    with served() as upstream:
        proxy = Proxy(trace, upstream)
        proxy.post("/mcp", PING)
        proxy.end(signal.SIGTERM)
    until_recorded(trace)
    live = [event.rule for event in open_trace(trace).events() if isinstance(event, Finding)]
    check = [sys.executable, "-m", "mcpproxy", "check", "--format", "json", str(trace)]
    later = subprocess.run(check, capture_output=True, timeout=DEADLINE_S, check=False, env=os.environ)
    assert live
    assert [finding["rule"] for finding in json.loads(later.stdout)["traces"][0]["findings"]] == live
