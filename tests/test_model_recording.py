"""``mcpproxy model`` from end to end: a service in each dialect, the proxy, and what was recorded."""

import hashlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Final

import pytest

from mcpproxy.judge.session.frame import Finding
from mcpproxy.model.dialect import DIALECTS
from mcpproxy.read.opening import follow, open_trace
from mcpproxy.record.recorder.model.turns import model_turns
from tests.benchmarks import model
from tests.benchmarks.model_peers import pieces_of, written
from tests.benchmarks.report import Samples
from tests.model.conversations import ANSWERS, ARGUMENTS, PATHS, REQUESTS, STREAMS
from tests.peers.web_server import WebServer
from tests.relay.hosts import until_recorded
from tests.trace.bodies import body_bytes

DEADLINE_S: Final = 60
KEY: Final = "sk-planted-0123456789abcdef"

_CREDENTIALS: Final = (
    f"x-api-key: {KEY}",
    f"Authorization: Bearer {KEY}",
    f"x-goog-api-key: {KEY}",
    f"api-key: {KEY}",
)


def answer_of(name: str, *, streams: bool) -> bytes:
    return b"".join(pieces_of(name, streams=streams))


class Service(BaseHTTPRequestHandler):
    """Answers in the dialect that the path names, as a stream if the request asks for one."""

    protocol_version = "HTTP/1.1"
    asked: list[bytes]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.asked.append(body)
        path = self.path.partition("?")[0]
        name = next((name for name, target in PATHS.items() if path == target.partition("?")[0]), "chat")
        self.wfile.write(answer_of(name, streams=b'"stream": true' in body))

    def log_message(self, format: str, *args: object) -> None:
        """Not a word on stderr."""


@contextmanager
def serving() -> Generator[tuple[int, list[bytes]]]:
    """Run the service; its port, and the bodies that it was sent."""
    asked: list[bytes] = []
    server = WebServer(("127.0.0.1", 0), type("Asked", (Service,), {"asked": asked}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_address[1], asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def recorded_ends(trace: Path) -> int:
    return trace.read_bytes().count(b'{"type":"end"') if trace.exists() else 0


class ModelProxy:
    """A running ``mcpproxy model``."""

    def __init__(self, trace: Path, upstream: int, *options: str) -> None:
        where = [f"http://127.0.0.1:{upstream}", "--listen", "127.0.0.1:0", "--trace", str(trace), *options]
        command = [sys.executable, "-m", "mcpproxy", "model", *where]
        self._trace = trace
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        self.greeting = self.process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", self.greeting)
        assert found is not None
        self.port = int(found[1])

    def end(self, number: int = signal.SIGTERM, *, exchanges: int = 0) -> str:
        """Stop it, once so many exchanges are recorded whole; what it says."""
        deadline = time.monotonic() + DEADLINE_S
        while exchanges and recorded_ends(self._trace) < exchanges:
            assert time.monotonic() < deadline, f"{exchanges} exchanges are not recorded"
            select.select([], [], [], 0.005)  # a file cannot be waited on
        self.process.send_signal(number)
        return self.process.communicate(timeout=DEADLINE_S)[1]


def exchanged(port: int, target: str, body: bytes, fields: Sequence[str] = ()) -> bytes:
    """All bytes that come back for a request, until the other side has nothing more."""
    lines = [
        f"POST {target} HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        *fields,
        f"Content-Length: {len(body)}",
        "",
        "",
    ]
    with socket.create_connection(("127.0.0.1", port), DEADLINE_S) as sock:
        sock.sendall("\r\n".join(lines).encode() + body)
        sock.shutdown(socket.SHUT_WR)
        got = bytearray()
        while data := sock.recv(1 << 16):
            got += data
    return bytes(got)


def requests(name: str) -> list[bytes]:
    body = {**REQUESTS[name], "stream": False}
    return [written(body), written({**body, "stream": True})]


@pytest.mark.parametrize("name", DIALECTS)
def test_every_byte_passes_and_is_recorded(tmp_path: Path, name: str) -> None:
    trace = tmp_path / "m.jsonl"
    with serving() as (port, asked):
        proxy = ModelProxy(trace, port, "--prompts")
        direct = [exchanged(port, PATHS[name], body, _CREDENTIALS) for body in requests(name)]
        target = f"{PATHS[name]}{'&' if '?' in PATHS[name] else '?'}key={KEY}"
        through = [exchanged(proxy.port, target, body, _CREDENTIALS) for body in requests(name)]
        said = proxy.end(exchanges=2)
    digests = [[hashlib.sha256(one).hexdigest() for one in side] for side in (direct, through)]
    assert digests[0] == digests[1]
    assert asked == requests(name) * 2
    until_recorded(trace)
    records = list(open_trace(trace).records())
    assert [body_bytes(records, exchange, "client") for exchange in (1, 2)] == requests(name)
    assert body_bytes(records, 1, "server") == written(ANSWERS[name])
    assert body_bytes(records, 2, "server").startswith(b"data: " + written(STREAMS[name][0]))
    assert KEY not in trace.read_text()
    assert not [record for record in records if isinstance(record, Finding)]
    turns = list(model_turns(open_trace(trace)))
    assert [turn.request.dialect for turn in turns] == [name] * 2
    calls = [call for turn in turns if turn.answer for call in turn.answer.calls]
    assert [call.arguments for call in calls] == [ARGUMENTS] * 2
    tools = len({(tool.namespace, tool.name) for tool in turns[0].request.tools})
    assert f"2 requests, 2 with tools; {tools} tool{'s' * (tools > 1)}, 2 calls; trace" in said


def test_without_prompts_nothing_that_was_said_is_recorded(tmp_path: Path) -> None:
    trace = tmp_path / "m.jsonl"
    with serving() as (port, _):
        proxy = ModelProxy(trace, port)
        for name in DIALECTS:
            for body in requests(name):
                exchanged(proxy.port, PATHS[name], body, _CREDENTIALS)
        proxy.end()
    until_recorded(trace)
    text = trace.read_text()
    assert not [told for told in ("Be brief", "Weather?", "Let me", "look.", KEY) if told in text]
    assert open_trace(trace).header.kept == "tools"


def test_sixteen_at_once(tmp_path: Path) -> None:
    trace = tmp_path / "m.jsonl"
    got: dict[int, bytes] = {}
    names = list(DIALECTS)

    def ask(number: int) -> None:
        got[number] = exchanged(proxy.port, PATHS[names[number % 4]], requests(names[number % 4])[1])

    with serving() as (port, _):
        proxy = ModelProxy(trace, port, "--prompts")
        threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        said = proxy.end(exchanges=16)
    assert got == {number: answer_of(names[number % 4], streams=True) for number in range(16)}
    assert "16 requests, 16 with tools" in said
    until_recorded(trace)
    records = list(open_trace(trace).records())
    bodies = sorted(body_bytes(records, exchange, "client") for exchange in range(1, 17))
    assert bodies == sorted(requests(name)[1] for name in names * 4)


def test_the_same_bytes_pass_with_and_without_a_proxy() -> None:
    model.measure(Samples(), "2 KB", 0, model.SHORT_COUNT)


@pytest.mark.parametrize("options", [(), ("--prompts",)])
def test_a_request_that_is_too_long_to_be_read_passes_and_is_told(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    trace = tmp_path / "m.jsonl"
    picture = {"type": "image", "source": {"type": "base64", "data": "aGVs" * (40 << 18)}}
    asked = [{**REQUESTS["anthropic"], "messages": [{"role": "user", "content": [picture]}]}]
    bodies = [written(asked[0]), requests("anthropic")[0]]
    with serving() as (port, got):
        proxy = ModelProxy(trace, port, *options)
        answers = [exchanged(proxy.port, PATHS["anthropic"], body) for body in bodies]
        said = proxy.end(exchanges=2)
    assert (got, answers) == (bodies, [answer_of("anthropic", streams=False)] * 2)
    until_recorded(trace)
    shown = subprocess.run(
        [sys.executable, "-m", "mcpproxy", "prompt", str(trace)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    ).stdout
    if options:
        assert "2 requests, 2 with tools; 3 tools, 2 calls" in said
        assert "not read" not in said
        assert body_bytes(open_trace(trace).records(), 1, "client") == bodies[0]
        assert "missing here" not in shown
    else:
        assert "1 request, 1 with tools; 3 tools, 1 call; 1 request not read" in said
        assert "1 request is missing here: too long to be read, cut, or not JSON" in shown


def test_a_killed_proxy_has_recorded_what_passed(tmp_path: Path) -> None:
    trace = tmp_path / "m.jsonl"
    with serving() as (port, _):
        proxy = ModelProxy(trace, port, "--prompts")
        for body in requests("chat"):
            exchanged(proxy.port, PATHS["chat"], body, _CREDENTIALS)
        proxy.end(signal.SIGKILL)
    assert list(follow(trace))
    records = list(open_trace(trace).records())
    assert [body_bytes(records, exchange, "client") for exchange in (1, 2)] == requests("chat")
    assert KEY not in trace.read_text()


def test_an_unknown_dialect_passes_and_is_told_once(tmp_path: Path) -> None:
    trace = tmp_path / "m.jsonl"
    with serving() as (port, asked):
        proxy = ModelProxy(trace, port)
        for _ in range(2):
            exchanged(proxy.port, "/v1/complete", b'{"prompt": "x"}')
        said = proxy.end(exchanges=2)
    assert asked == [b'{"prompt": "x"}'] * 2
    assert said.count("POST /v1/complete: not a dialect that is read; its bodies are recorded") == 1


def test_it_has_no_calls_of_mcp(tmp_path: Path) -> None:
    with serving() as (port, _):
        proxy = ModelProxy(tmp_path / "m.jsonl", port, "--live", "json")
        exchanged(proxy.port, PATHS["chat"], requests("chat")[0])
        summary = json.loads(proxy.end(exchanges=1).splitlines()[-1])
    assert summary["model"] == {"requests": 1, "with_tools": 1, "tools": 1, "calls": 1, "unread": 0}
    until_recorded(tmp_path / "m.jsonl")
    listed = [sys.executable, "-m", "mcpproxy", "list", str(tmp_path)]
    shown = subprocess.run(listed, capture_output=True, text=True, timeout=DEADLINE_S, check=True)
    *cells, name = shown.stdout.splitlines()[1].split()
    assert cells[-3:] == ["-", "-", "stopped"]
    assert os.path.basename(name) == "m.jsonl"
