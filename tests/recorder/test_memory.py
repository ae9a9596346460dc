"""Large bodies through `mcpproxy http`: relay and recorder together stay below what a small container has."""

import gzip
import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from mcpproxy.judge.session.frame import ExchangeEnd
from mcpproxy.read.opening import follow, open_trace
from tests.relay.hosts import DEADLINE_S, until_recorded
from tests.relay.http_peers import Peer, Upstream, request
from tests.trace.bodies import body_bytes

LIMIT_KIB: Final = 128 << 10
LARGE: Final = 50 << 20
JUDGED: Final = (16 << 20) - 300  # with the message around it just one that may be held and judged

ACCEPT: Final = (b"Content-Type: application/json", b"Accept: application/json, text/event-stream")
SMALL: Final = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


def text(size: int) -> bytes:
    """A long string."""
    return b'"' + b"all the words of a book, \\n" * (size // 27) + b'"'


def rows(size: int) -> bytes:
    """Many small objects."""
    row = b'{"id":12345,"name":"somebody","tags":["a","b"],"n":1.5},'
    return b"[" + row * (size // len(row)) + b"0]"


def call(value: bytes) -> bytes:
    return (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"v":%b}}}' % value
    )


def result(value: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":{"v":%b}}}' % value


def event(message: bytes) -> bytes:
    return b"event: message\ndata: " + message + b"\n\n"


def answer(body: bytes, *fields: bytes, kind: bytes = b"application/json") -> bytes:
    lines = [b"HTTP/1.1 200 OK", b"Content-Type: " + kind, *fields, b"Content-Length: %d" % len(body)]
    return b"\r\n".join([*lines, b"", body])


SSE: Final = b"text/event-stream"
GZIP: Final = b"Content-Encoding: gzip"

BODIES = {
    "50 MiB both ways": lambda: (call(text(LARGE)), answer(result(text(LARGE)))),
    "50 MiB of objects both ways": lambda: (call(rows(LARGE)), answer(result(rows(LARGE)))),
    "an event of 50 MiB": lambda: (SMALL, answer(event(result(text(LARGE))), kind=SSE)),
    "50 MiB in gzip": lambda: (SMALL, answer(gzip.compress(result(text(LARGE)), 1), GZIP)),
    "6 MiB in gzip": lambda: (SMALL, answer(gzip.compress(result(text(6 << 20)), 1), GZIP)),
    "an event of 50 MiB in gzip": lambda: (
        SMALL,
        answer(gzip.compress(event(result(text(LARGE))), 1), GZIP, kind=SSE),
    ),
    "just below the limit both ways": lambda: (call(text(JUDGED)), answer(result(text(JUDGED)))),
    "objects just below the limit both ways": lambda: (call(rows(JUDGED)), answer(result(rows(JUDGED)))),
    "an event just below the limit": lambda: (SMALL, answer(event(result(text(JUDGED))), kind=SSE)),
    "an event of objects just below the limit": lambda: (
        SMALL,
        answer(event(result(rows(JUDGED))), kind=SSE),
    ),
    "just below the limit in gzip": lambda: (SMALL, answer(gzip.compress(result(text(JUDGED)), 1), GZIP)),
}


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    server = Upstream()
    yield server
    server.close()


def peak_kib(pid: int | str) -> int:
    """The most memory that a process ever had, what it shares with others included."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    raise LookupError(pid)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        *[(name, "/mcp") for name in BODIES],
        ("50 MiB of objects both ways", "/upload"),  # elsewhere, what may be a credential is masked
        ("6 MiB in gzip", "/upload"),  # of a longer one nobody knows whether it holds credentials
    ],
)
def test_large_bodies_in_little_memory(name: str, path: str, upstream: Upstream, tmp_path: Path) -> None:
    body, answered = BODIES[name]()
    trace = str(tmp_path / "t.jsonl")
    options = (f"{upstream.origin}/mcp", "--listen", "127.0.0.1:0", "--trace", trace)
    with subprocess.Popen(
        [sys.executable, "-m", "mcpproxy", "http", *options], stderr=subprocess.PIPE, text=True
    ) as proxy:
        assert proxy.stderr is not None
        port = int(proxy.stderr.readline().partition("http://127.0.0.1:")[2].partition("/")[0])
        client = Peer(socket.create_connection(("127.0.0.1", port), DEADLINE_S))
        sending = client.send_aside(request(body, *ACCEPT, line=f"POST {path} HTTP/1.1".encode()))
        server = upstream.accept()
        server.read_head()
        assert server.read(len(body)) == body
        sending.join()
        sending = server.send_aside(answered)
        assert client.read(len(answered)) == answered
        sending.join()
        assert next(event for event in follow(trace) if isinstance(event, ExchangeEnd))
        (recorder,) = Path(f"/proc/{proxy.pid}/task/{proxy.pid}/children").read_text().split()
        assert peak_kib(proxy.pid) + peak_kib(recorder) < LIMIT_KIB
        client.close()
        proxy.terminate()
        assert "fault" not in proxy.stderr.read()
    until_recorded(trace)
    records = list(open_trace(trace).records())
    assert body_bytes(records, 1, "client") == body
    assert body_bytes(records, 1, "server") == answered.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize("value", [text, rows])
@pytest.mark.parametrize("message", [call, result])
def test_the_bodies_are_messages(message: Callable[[bytes], bytes], value: Callable[[int], bytes]) -> None:
    assert json.loads(message(value(1000)))["jsonrpc"] == "2.0"
