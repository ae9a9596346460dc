"""Both ends of a bridge: a host on stdio, a scripted HTTP server, an HTTP client, a scripted stdio server.

Every wait has a deadline, and what is waited for is a line, a request, an end of stream or an exit.
"""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from queue import Empty, Queue
from types import TracebackType
from typing import Any, Final
from urllib.parse import urlsplit

import mcpproxy
from mcpproxy.judge.session.frame import Sender
from tests.peers.processes import ROOT, Process
from tests.relay.hosts import until_recorded

DEADLINE_S: Final = 60
STDIO_SERVER: Final = [sys.executable, "-S", str(Path(__file__).parent / "stdio_server.py")]

INITIALIZE: Final = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
    b'"capabilities":{},"clientInfo":{"name":"test","version":"1"}}}'
)
INITIALIZED: Final = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
WELCOME: Final = (
    b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},'
    b'"serverInfo":{"name":"test","version":"1"}}}'
)


def bridge(folder: Path, *arguments: str) -> list[str]:
    """Return the command of a bridge that records into ``folder``."""
    return [sys.executable, "-m", "mcpproxy", "bridge", "--trace-dir", str(folder), *arguments]


def recordings(folder: Path) -> dict[str, Path]:
    """Return the recordings in a folder by leg; of several stdio legs the last."""
    return {path.stem.split("-")[-2]: path for path in complete(folder)}


def complete(folder: Path) -> list[Path]:
    """Return all that is in a folder once the recorders, which may outlive the bridge, have ended."""
    until_recorded(folder)
    found = sorted(folder.iterdir())
    assert [path.name for path in found if path.suffix != ".jsonl"] == []
    return found


def frames(trace: Path, sender: Sender) -> list[bytes]:
    """Return the bytes of all messages of one side in a recording that is complete."""
    return [
        frame.raw for frame in mcpproxy.open_trace(trace).frames() if frame.sender == sender and frame.raw
    ]


def summed_up(said: list[str], summary: str) -> bool:
    """Whether a leg was summed up, or its recorder was not done when the bridge had waited long enough."""
    return any(summary in line or "the recorder is not done" in line for line in said)


class Host:
    """A host that starts ``bridge URL`` and speaks stdio with it."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        command: list[str] | None = None,
    ) -> None:
        self.process: Final = subprocess.Popen(
            command or bridge(folder, *arguments),
            cwd=ROOT,
            env={**os.environ, **(env or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._lines: Final[Queue[bytes | None]] = Queue()
        self.said: Final[list[str]] = []
        self._says: Final = threading.Condition()
        self._threads = [threading.Thread(target=self._read), threading.Thread(target=self._read_stderr)]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> "Host":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            error.add_note("the bridge said:\n" + "".join(self.said[-20:]))
        self.process.kill()
        self._finish()

    def say(self, *lines: bytes) -> None:
        """Write lines."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"".join(line + b"\n" for line in lines))
        self.process.stdin.flush()

    def hear(self) -> bytes:
        """Return the next line."""
        line = self._lines.get(timeout=DEADLINE_S)
        assert line is not None, "".join(self.said)
        return line

    def until_said(self, pattern: str) -> None:
        """Wait for a line on stderr."""
        with self._says:
            is_said = self._says.wait_for(lambda: re.search(pattern, "".join(self.said)), DEADLINE_S)
        assert is_said, "".join(self.said)

    def close(self) -> int:
        """Close stdin, and return the exit code."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        return self.exit()

    def exit(self) -> int:
        """Wait for the exit, and return its code. Nothing more was heard."""
        code = self.process.wait(DEADLINE_S)
        self._finish()
        with suppress(Empty):
            assert self._lines.get_nowait() is None
        return code

    def _finish(self) -> None:
        self.process.wait()
        for thread in self._threads:
            thread.join(DEADLINE_S)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.removesuffix(b"\n"))
        self._lines.put(None)

    def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._says:
                self.said.append(line.decode("utf-8", "replace"))
                self._says.notify_all()


class Asked:
    """A request that has come to the HTTP server, to be answered by the test."""

    def __init__(self, sock: socket.socket, head: bytes, body: bytes) -> None:
        self._sock = sock
        line, *lines = head.decode("latin-1").split("\r\n")
        self.method, self.target, _ = line.split(" ")
        self.headers = {
            name.lower(): value.strip() for name, _, value in (one.partition(":") for one in lines)
        }
        self.body = body

    def answer(self, status: int = 200, body: bytes = b"", **fields: str) -> None:
        """Send a whole response."""
        fields = {
            "Content_Length": str(len(body)),
            **({"Content_Type": "application/json"} if body else {}),
            **({"Connection": "close"} if self.method == "GET" else {}),  # its thread reads no more
            **fields,
        }
        self._sock.sendall(self._head(status, fields) + body)

    def stream(self, *events: bytes, **fields: str) -> None:
        """Begin an event stream with these events."""
        self._sock.sendall(
            self._head(200, {"Content_Type": "text/event-stream", "Connection": "close", **fields})
        )
        self.send(*events)

    def send(self, *events: bytes) -> None:
        """Send more events, each with its fields and the blank line."""
        self._sock.sendall(b"".join(events))

    def end(self) -> None:
        """Close the connection."""
        self._sock.shutdown(socket.SHUT_WR)

    def wait_gone(self) -> None:
        """Wait until the client has closed the connection."""
        self._sock.settimeout(DEADLINE_S)
        with suppress(ConnectionResetError):
            assert self._sock.recv(1) == b""

    def _head(self, status: int, fields: Mapping[str, str]) -> bytes:
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
        return "\r\n".join([f"HTTP/1.1 {status} Whatever", *lines, "", ""]).encode()


class Server:
    """An HTTP server whose requests the test takes and answers."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/mcp"
        self._asked: Queue[Asked] = Queue()
        self._socks: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def asked(self, method: str = "POST") -> Asked:
        """Return the next request, which has this method."""
        asked = self._asked.get(timeout=DEADLINE_S)
        assert asked.method == method, (asked.method, asked.body)
        return asked

    def stop(self) -> None:
        """Close all connections, and accept no more."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in self._socks:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(DEADLINE_S)
        for sock in self._socks:
            sock.close()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self._socks.append(sock)
            thread = threading.Thread(target=self._serve, args=(sock,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket) -> None:
        buffer = b""
        with suppress(OSError):
            while True:
                while b"\r\n\r\n" not in buffer:
                    if not (data := sock.recv(65536)):
                        return
                    buffer += data
                head, _, buffer = buffer.partition(b"\r\n\r\n")
                length = next(
                    (
                        int(line.split(b":")[1])
                        for line in head.split(b"\r\n")
                        if line.lower().startswith(b"content-length:")
                    ),
                    0,
                )
                while len(buffer) < length:
                    buffer += sock.recv(65536)
                asked = Asked(sock, head, buffer[:length])
                buffer = buffer[length:]
                self._asked.put(asked)
                if asked.method == "GET":
                    return


class Reply:
    """A response to the HTTP client. ``body`` reads all of it."""

    def __init__(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        self.connection = connection
        self._response = response
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}

    @property
    def is_stream(self) -> bool:
        return self.headers.get("content-type", "") == "text/event-stream"

    def body(self) -> bytes:
        """Return the whole body, and close the connection."""
        body = self._response.read()
        self.connection.close()
        return body

    def event(self) -> dict[str, bytes]:
        """Return the fields of the next event."""
        fields: dict[str, bytes] = {}
        while line := self._response.readline():
            if line == b"\n":
                return fields
            name, _, value = line.rstrip(b"\n").partition(b": ")
            fields[name.decode()] = value
        raise AssertionError("the stream has ended")

    def events(self) -> Iterator[dict[str, bytes]]:
        """Yield the remaining events, to the end of the stream."""
        with suppress(AssertionError):
            while True:
                yield self.event()
        self.connection.close()

    def drop(self) -> None:
        """Close the connection, whatever is under way."""
        sock = self.connection.sock
        if sock is not None:
            sock.close()
        self._response.close()
        self.connection.close()


class Bridge:
    """``bridge --stdio`` before a server, and a client of it."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        command: list[str] = STDIO_SERVER,
        env: Mapping[str, str] | None = None,
        is_whole: bool = False,
    ) -> None:
        """Start it. ``command`` is that of the server, or, with ``is_whole``, that of the bridge."""
        if not is_whole:
            command = bridge(folder, "--stdio", "--listen", "127.0.0.1:0", *options, "--", *command)
        self.process = Process(command, env)
        self.url = self.process.expect(r"listening on (http://\S+)")
        self._replies: list[Reply] = []

    def __enter__(self) -> "Bridge":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        for reply in self._replies:
            reply.drop()
        if error is not None:
            error.add_note("the bridge said:\n" + "".join(self.process.said[-20:]))

    def stop(self) -> list[str]:
        """End the bridge, and return what it has said."""
        assert self.process.stop() == 0, "".join(self.process.said)
        return self.process.said

    def ask(self, body: bytes = b"", session: str = "", method: str = "POST", **fields: str) -> Reply:
        """Send a request, and return its response when the head has come."""
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=DEADLINE_S)
        headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        if session:
            headers |= {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}
        headers.update({name.replace("_", "-"): value for name, value in fields.items()})
        connection.request(method, parts.path, body or None, headers)
        self._replies.append(Reply(connection, connection.getresponse()))
        return self._replies[-1]

    def begin(self, revision: str = "2025-11-25") -> str:
        """Begin a session of a revision, and return its id."""
        reply = self.ask(INITIALIZE.replace(b"2025-11-25", revision.encode()))
        assert reply.status == 200
        session = reply.headers["mcp-session-id"]
        assert WELCOME.replace(b"2025-11-25", revision.encode()) in reply.body()
        assert self.ask(INITIALIZED, session, MCP_Protocol_Version=revision).body() == b""
        return session


def call(id: object, *says: bytes | str, **params: Any) -> bytes:
    """Return a request that has the scripted server do these things; see ``stdio_server.py``."""
    says_text = [say.decode() if isinstance(say, bytes) else say for say in says]
    message = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"says": says_text, **params}}
    return json.dumps(message, separators=(",", ":")).encode()


def result(id: object) -> bytes:
    """Return an answer, with spaces and escapes that no serialiser would write alike."""
    return (
        b'{ "jsonrpc":"2.0" ,"id":%s, "result":{"n":12345678901234567890.10,"s":"\\u00e9\\/"} }'
        % json.dumps(id).encode()
    )


def is_alive(pid: int) -> bool:
    """Whether a process runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] != "Z"


SIGKILL: Final = signal.SIGKILL
