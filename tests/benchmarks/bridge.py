"""What a bridge between stdio and Streamable HTTP costs: latency beside two others, and idle sessions."""

import http.client
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from mcpproxy.record.relay.open_files import raise_limit
from tests.benchmarks import processes
from tests.benchmarks.options import Options
from tests.benchmarks.report import Samples, Section
from tests.benchmarks.sessions import ROOT, WrongBytesError, peer_command
from tests.peers import install

PEERS: Final = [sys.executable, "-S", str(ROOT / "tests" / "benchmarks" / "bridge_peers.py")]
OURS: Final = "mcpproxy"
DEADLINE_S: Final = 60

INITIALIZE: Final = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "load", "version": "1"},
    },
}
INITIALIZED: Final = {"jsonrpc": "2.0", "method": "notifications/initialized"}

Commands = dict[str, Callable[[int], list[str]]]
"""Name of a bridge -> its command, given a port."""


def run(options: Options) -> list[Section]:
    """Measure every bridge in turn.

    Raises:
        WrongBytesError: an answer was lost or changed.
    """
    calls = 50 if options.short else 1_000
    idle = (20,) if options.short else (200 // options.part, 2_000 // options.part)
    raise_limit()
    samples = Samples()
    with tempfile.TemporaryDirectory(prefix="mcpproxy-benchmark-") as name:
        outside, inside = _commands(samples, Path(name), alone=options.short or options.ours)
        for _ in range(options.rounds):
            for bridge, command in outside.items():
                _measure(samples, bridge, "HTTP outside", _http_calls(command, calls))
            with _http_server() as port:
                for bridge, command in inside.items():
                    _measure(samples, bridge, "stdio outside", _stdio_calls(command(port), calls))
            for count in idle:
                _hold(samples, count, Path(name))
    return [Section("bridge", samples, list(outside))]


def _commands(samples: Samples, folder: Path, *, alone: bool) -> tuple[Commands, Commands]:
    """Return the bridges with HTTP outside, and those with stdio outside; ours last, or ``alone``."""
    server = [*PEERS, "stdio"]
    ours = [sys.executable, "-m", "mcpproxy", "bridge", "--quiet", "--trace-dir", str(folder)]
    outside: Commands = {}
    inside: Commands = {}
    if not alone:
        try:
            python = str(install.python_with_competitor("mcp-proxy"))
            proxy = [python, "-c", "from mcp_proxy.__main__ import main; main()"]
            outside["mcp-proxy"] = lambda port: [*proxy, "--port", str(port), "--", *server]
            inside["mcp-proxy"] = lambda port: [*proxy, "--transport", "streamablehttp", _url(port)]
        except install.PeerUnavailableError as fault:
            samples.notes.append(f"No mcp-proxy: {fault}.")
        try:
            packages = install.node_packages("supergateway", install.SUPERGATEWAY)
            gateway = ["node", str(packages / "supergateway" / "dist" / "index.js"), "--logLevel", "none"]
            http = ["--outputTransport", "streamableHttp", "--stateful", "--stdio", " ".join(server)]
            outside["supergateway"] = lambda port: [*gateway, *http, "--port", str(port)]
            inside["supergateway"] = lambda port: [*gateway, "--streamableHttp", _url(port)]
        except install.PeerUnavailableError as fault:
            samples.notes.append(f"No supergateway: {fault}.")
    outside[OURS] = lambda port: [*ours, "--stdio", "--listen", f"127.0.0.1:{port}", "--", *server]
    inside[OURS] = lambda port: [*ours, _url(port)]
    return outside, inside


def _url(port: int) -> str:
    return f"http://127.0.0.1:{port}/mcp"


def _measure(samples: Samples, bridge: str, form: str, took_us: list[float]) -> None:
    took_us.sort()
    samples.add(f"{form}: p50, µs", bridge, statistics.median(took_us))
    samples.add(f"{form}: p99, µs", bridge, took_us[len(took_us) * 99 // 100])


def _call(id: int) -> dict[str, Any]:
    arguments = {"text": f"text {id}"}
    return {
        "jsonrpc": "2.0",
        "id": id,
        "method": "tools/call",
        "params": {"name": "echo", "arguments": arguments},
    }


def _check(id: int, answer: bytes) -> None:
    message = json.loads(answer)
    if message["id"] != id or message["result"]["content"][0]["text"] != f"text {id}":
        raise WrongBytesError(f"call {id} was answered with {answer!r}")


# HTTP outside


class Client:
    """A client over Streamable HTTP, with one connection."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
        self._headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        self._connection.connect()
        self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def begin(self) -> None:
        """Begin a session."""
        self.send(INITIALIZE)
        self._headers["MCP-Protocol-Version"] = "2025-11-25"
        self.send(INITIALIZED)

    def send(self, message: dict[str, Any]) -> bytes:
        """Send a message, and return the last message of the response."""
        self._connection.request(
            "POST", "/mcp", json.dumps(message, separators=(",", ":")).encode(), self._headers
        )
        response = self._connection.getresponse()
        if session := response.getheader("mcp-session-id"):
            self._headers["Mcp-Session-Id"] = session
        body = response.read()
        if response.status >= 300:
            raise WrongBytesError(f"{message} was answered with {response.status}: {body!r}")
        if (response.getheader("content-type") or "").startswith("text/event-stream"):
            data = [line[5:].strip() for line in body.splitlines() if line.startswith(b"data:")]
            return next(line for line in reversed(data) if line)
        return body

    def open_stream(self) -> None:
        """Open the stream of the session, and leave it open."""
        headers = {**self._headers, "Accept": "text/event-stream"}
        self._connection.request("GET", "/mcp", headers=headers)
        if self._connection.getresponse().status != 200:
            raise WrongBytesError("no stream")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _http_calls(command: Callable[[int], list[str]], calls: int) -> list[float]:
    with _listening(command) as (port, _):
        client = Client(port)
        client.begin()
        took_us = [_timed(client.send, id) for id in range(1, calls + 1)]
        client.close()
    return took_us


def _timed(send: Callable[[dict[str, Any]], bytes], id: int) -> float:
    call = _call(id)
    began_ns = time.perf_counter_ns()
    answer = send(call)
    took_ns = time.perf_counter_ns() - began_ns
    _check(id, answer)
    return took_ns / 1000


@contextmanager
def _listening(command: Callable[[int], list[str]]) -> Generator[tuple[int, int]]:
    """Run a bridge until it listens; yield its port and its process id."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    process = subprocess.Popen(
        command(port),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + DEADLINE_S
        while True:
            if process.poll() is not None or time.monotonic() > deadline:
                raise WrongBytesError(f"{command(port)} does not listen")
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            time.sleep(0.02)
        yield port, process.pid
    finally:
        process.terminate()
        try:
            process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            pass
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


# stdio outside


@contextmanager
def _http_server() -> Generator[int]:
    with subprocess.Popen([*PEERS, "http"], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.kill()


def _stdio_calls(command: list[str], calls: int) -> list[float]:
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None

        def send(message: dict[str, Any]) -> bytes:
            stdin.write(json.dumps(message).encode() + b"\n")
            stdin.flush()
            return stdout.readline() if "id" in message else b""

        try:
            send(INITIALIZE)
            send(INITIALIZED)
            took_us = [_timed(send, id) for id in range(1, calls + 1)]
        finally:
            stdin.close()
            try:
                process.wait(DEADLINE_S)
            except subprocess.TimeoutExpired:
                process.kill()
    return took_us


# Idle sessions


def _hold(samples: Samples, count: int, folder: Path) -> None:
    """Hold sessions with an open stream each, and measure what the bridge needs for them."""
    traces = folder / f"idle-{count}"
    server = [*peer_command(), "serve"]
    ours = [sys.executable, "-m", "mcpproxy", "bridge", "--quiet", "--trace-dir", str(traces), "--stdio"]
    with _listening(lambda port: [*ours, "--listen", f"127.0.0.1:{port}", "--", *server]) as (port, pid):
        clients = [_client(port)]
        before = _memory_mib(pid)
        began = time.perf_counter()
        clients += [_client(port) for _ in range(count)]
        took_s = time.perf_counter() - began
        after = _memory_mib(pid)
        for name in before:
            samples.add(
                f"{count:,} idle sessions: {name}, KiB each",
                OURS,
                (after[name] - before[name]) * 1024 / count,
            )
        samples.add(f"{count:,} idle sessions: begun, ms each", OURS, took_s * 1000 / count)
        spent = _cpu_seconds(pid)
        time.sleep(2)
        samples.add(f"{count:,} idle sessions: processor, %", OURS, (_cpu_seconds(pid) - spent) * 50)
        for client in clients:
            client.close()
    recorded = len(list(traces.glob("*-stdio-*.jsonl")))
    if recorded != count + 1:
        raise WrongBytesError(f"{recorded} of {count + 1} sessions are recorded")
    shutil.rmtree(traces)


def _client(port: int) -> Client:
    client = Client(port)
    client.begin()
    client.open_stream()
    return client


def _ours(pid: int) -> dict[str, int]:
    """Return the process ids of a bridge: itself, and its two recorders."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    found = {"bridge": pid}
    for child in map(int, children):
        line = Path(f"/proc/{child}/cmdline").read_bytes()
        if b"session_recorder" in line:
            found["recorder of stdio"] = child
        elif b"mcpproxy" in line:
            found["recorder of HTTP"] = child
    return found


def _memory_mib(pid: int) -> dict[str, float]:
    if not processes.AVAILABLE:
        return {}
    time.sleep(1)  # the recorders are behind the wire
    return {name: processes.pss_mib(one) for name, one in _ours(pid).items()}


def _cpu_seconds(pid: int) -> float:
    return sum(processes.cpu_seconds(one) for one in _ours(pid).values()) if processes.AVAILABLE else 0
