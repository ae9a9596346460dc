"""What hostile inputs cost: the size of the trace, the memory of the recorder, the time after the traffic."""

import gzip
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Final

from tests.benchmarks import processes
from tests.benchmarks.http_variants import LISTENING
from tests.benchmarks.options import Options
from tests.benchmarks.report import Samples, Section
from tests.benchmarks.sessions import ROOT
from tests.relay.http_peers import Peer, Upstream, request

PATIENCE_S: Final = 300.0
COLUMNS: Final = ("passed", "trace", "factor", "recorder's peak, MiB", "s after the traffic")
ASKED: Final = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
ACCEPT: Final = (b"Content-Type: application/json", b"Accept: application/json, text/event-stream")

SAYS: Final = """
import sys
unit, count = {unit!r}, {count}
sys.stdout.buffer.write({first!r})
for _ in range(count // 1000):
    sys.stdout.buffer.write(unit * 1000)
sys.stdout.buffer.write(unit * (count % 1000) + {last!r})
sys.stdout.buffer.flush()
sys.stdin.read()
"""
READS: Final = "import sys\nwhile sys.stdin.buffer.read(65536): pass"

Row = tuple[int, int, float, float]
"""Bytes that passed, bytes of the trace, the recorder's peak in MiB, seconds from the last byte on."""


def run(options: Options) -> list[Section]:
    """A row for each input; ``short`` takes a tenth of each."""
    part = 10 if options.short else options.part
    small_zeros = b"[" + b"0," * (900_000 // part) + b"0]"
    answer_zeros = b'{"jsonrpc":"2.0","id":1,"result":{"tools":' + small_zeros + b"}}"
    nested = gzip.compress(gzip.compress(b"0" * ((400 << 20) // part), mtime=0), mtime=0)
    events = gzip.compress(b"data\n\n" * ((19 << 20) // part), mtime=0)
    inputs: dict[str, Callable[[Path], Row]] = {
        "4 MB of `y\\n`": lambda path: stdio(
            path, SAYS.format(first=b"", unit=b"y\n", count=2_000_000 // part, last=b"")
        ),
        "a line of 8 MB, `[0,0,…]`": lambda path: stdio(
            path, SAYS.format(first=b"[", unit=b"0,", count=(4 << 20) // part, last=b"0]\n")
        ),
        "12,000 ids of 20 KB": lambda path: stdio(path, READS, ids(12_000 // part)),
        "an HTTP answer of 1.8 MB, `[0,0,…]`": lambda path: http(path, answered(small_zeros)),
        "the same within a result": lambda path: http(path, answered(answer_zeros)),
        f"gzip in gzip, {len(nested):,} bytes": lambda path: http(
            path, answered(nested, b"Content-Encoding: gzip, gzip")
        ),
        f"tiny SSE events in gzip, {len(events):,} bytes": lambda path: http(
            path, answered(events, b"Content-Encoding: gzip", kind=b"text/event-stream")
        ),
        "40 unfinished bodies of 15 MB": lambda path: unfinished(path, 40, 15_000_000 // part),
        "400 unfinished heads of 250 KB": lambda path: unfinished_heads(path, 400, 250_000 // part),
        "300,000 requests on one connection, none answered": lambda path: unanswered(path, 300_000 // part),
    }
    samples = Samples()
    for _ in range(options.rounds):
        for name, measure in inputs.items():
            with tempfile.TemporaryDirectory() as folder:
                passed, size, peak, seconds = measure(Path(folder) / "t.jsonl")
            for column, value in zip(COLUMNS, (passed, size, size / passed, peak, seconds), strict=True):
                samples.add(name, column, value)
    title = "bounds" if part == 1 else f"bounds, one part in {part} of each input"
    return [Section(title, samples, COLUMNS, ratios=False)]


def ids(count: int) -> Iterator[bytes]:
    """Requests that nobody answers, each with a long id."""
    for number in range(count):
        yield b'{"jsonrpc":"2.0","id":"%d%b","method":"ping"}\n' % (number, b"i" * 20_000)


def stdio(trace: Path, server: str, said: Iterable[bytes] = ()) -> Row:
    """A session with ``server``, to which ``said`` is said, until it has said all that it has to say."""
    command = [
        sys.executable,
        "-m",
        "mcpproxy",
        "run",
        "--quiet",
        "--trace",
        str(trace),
        "--",
        sys.executable,
        "-c",
        server,
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as relay:
        assert relay.stdin is not None
        assert relay.stdout is not None
        passed = 0
        for part in said:
            relay.stdin.write(part)
            passed += len(part)
        watch = Watch(relay.pid)
        relay.stdin.close()
        while data := os.read(relay.stdout.fileno(), 1 << 20):
            passed += len(data)
            watch.last = time.monotonic()
        peak, seconds = watch.result()
    return passed, _size(trace), peak, seconds


def answered(body: bytes, *fields: bytes, kind: bytes = b"application/json") -> bytes:
    """A whole response."""
    lines = [b"HTTP/1.1 200 OK", b"Content-Type: " + kind, *fields, b"Content-Length: %d" % len(body)]
    return b"\r\n".join([*lines, b"", body])


@contextmanager
def _proxied(trace: Path) -> Generator[tuple[Upstream, int, "subprocess.Popen[str]"]]:
    upstream = Upstream()
    options = ("--listen", "127.0.0.1:0", "--trace", str(trace))
    command = [sys.executable, "-m", "mcpproxy", "http", f"{upstream.origin}/mcp", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT) as proxy:
        assert proxy.stderr is not None
        lines = iter(proxy.stderr.readline, "")
        port = next(int(found[1]) for line in lines if (found := LISTENING.search(line)))
        yield upstream, port, proxy
    upstream.close()


def http(trace: Path, answer: bytes) -> Row:
    """One request, and ``answer``."""
    with _proxied(trace) as (upstream, port, proxy):
        client = Peer(socket.create_connection(("127.0.0.1", port), PATIENCE_S))
        asked = request(ASKED, *ACCEPT)
        client.send_aside(asked).join()
        server = upstream.accept()
        server.read_head()
        server.read(len(ASKED))
        sending = server.send_aside(answer)
        client.read(len(answer))
        sending.join()
        peak, seconds = _ended(proxy)
    return len(asked) + len(answer), _size(trace), peak, seconds


def unfinished(trace: Path, count: int, size: int) -> Row:
    """Requests of which a byte is missing, on so many connections."""
    body = b'"' + b"x" * (size - 1)
    head = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n"
    with _proxied(trace) as (upstream, port, proxy):
        peers: list[Peer] = []
        for _ in range(count):
            client = Peer(socket.create_connection(("127.0.0.1", port), PATIENCE_S))
            sending = client.send_aside(head % (size + 1) + body)
            server = upstream.accept()
            server.read_head()
            server.read(size)
            sending.join()
            peers += (client, server)
        peak, seconds = _ended(proxy)
    return count * size, _size(trace), peak, seconds


def unfinished_heads(trace: Path, count: int, size: int) -> Row:
    """Answers of which only a part of the head came, on so many connections."""
    asked = request(ASKED, *ACCEPT)
    head = b"HTTP/1.1 200 OK\r\nX-Long: "
    head += b"x" * (size - len(head))
    with _proxied(trace) as (upstream, port, proxy):
        peers: list[Peer] = []
        for _ in range(count):
            client = Peer(socket.create_connection(("127.0.0.1", port), PATIENCE_S))
            client.send_aside(asked).join()
            server = upstream.accept()
            server.read_head()
            server.read(len(ASKED))
            sending = server.send_aside(head)
            client.read(len(head))
            sending.join()
            peers += (client, server)
        peak, seconds = _ended(proxy)
    return count * (len(asked) + size), _size(trace), peak, seconds


def unanswered(trace: Path, count: int) -> Row:
    """So many requests in a row on one connection, to a server that reads and never answers."""
    asked = b"GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with _proxied(trace) as (upstream, port, proxy):
        client = Peer(socket.create_connection(("127.0.0.1", port), PATIENCE_S))
        sending = client.send_aside(asked * count)
        server = upstream.accept()
        for _ in range(count):
            server.read_head()
        sending.join()
        peak, seconds = _ended(proxy)
    return count * len(asked), _size(trace), peak, seconds


def _ended(proxy: "subprocess.Popen[str]") -> tuple[float, float]:
    watch = Watch(proxy.pid)
    proxy.terminate()
    return watch.result()


class Watch:
    """Looks at the recorder of ``relay`` until it is gone. ``last`` is when the last byte passed."""

    def __init__(self, relay: int) -> None:
        found: list[int] = []
        # The server is forked from the relay as well, and looks like the recorder at first.
        while len(found) < 3 or len(set(found[-3:])) > 1:
            found += [pids.recorder] if (pids := processes.find(relay)) is not None else []
            time.sleep(0.05)
        self.last = time.monotonic()
        self._recorder: Final = found[-1]
        self._peak = self._gone = 0.0
        self._thread: Final = Thread(target=self._look)
        self._thread.start()

    def _look(self) -> None:
        try:
            while now := processes.peak_mib(self._recorder):
                self._peak = max(self._peak, now)
                time.sleep(0.01)
        except (FileNotFoundError, ProcessLookupError):
            pass
        self._gone = time.monotonic()

    def result(self) -> tuple[float, float]:
        """The peak in MiB, and how many seconds it was still there after the last byte."""
        self._thread.join()
        return self._peak, self._gone - self.last


def _size(trace: Path) -> int:
    return sum(path.stat().st_size for path in trace.parent.rglob("*") if path.is_file())
