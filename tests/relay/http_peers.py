"""Clients and upstreams for the tests of the HTTP relay: raw sockets that say and expect exact bytes.

Every wait has a deadline, and what is waited for is bytes, an end of stream or an exit.
"""

import json
import os
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

import pytest

from mcpproxy.record.relay import journal
from tests.relay.hosts import DEADLINE_S, HERE

Record = tuple[int, int, bytes]

LOOPS = ("epoll", "portable")
"""The kinds of proxy: for Linux, and for systems without fork (Windows)."""

usual_loop = LOOPS[0]
"""The kind of those proxies for which a test names none."""

FORKED = pytest.mark.parametrize("loop", LOOPS[:1], indirect=True)
"""For tests of what the proxy without fork does not have; the document of the relay says why."""

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def request(body: bytes = b"", *fields: bytes, line: bytes = b"POST /mcp HTTP/1.1") -> bytes:
    """A request of an ordinary client."""
    lines = [line, b"Host: 127.0.0.1:8765", *fields]
    if body:
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join([*lines, b"", body])


UPGRADE = request(b"", b"Connection: Upgrade", b"Upgrade: websocket", line=b"GET /ws HTTP/1.1")
SWITCHING = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


def read_journal(trace: str) -> list[Record]:
    """The records of a journal: kind, connection, payload."""
    records: list[Record] = []
    for name in sorted(Path(journal.folder(trace)).glob("0*")):
        data, at = name.read_bytes(), 0
        while at + journal.HEAD.size <= len(data):
            length, kind, connection, _ = journal.HEAD.unpack_from(data, at)
            at += journal.HEAD.size
            records.append((kind, connection, data[at : at + length]))
            at += length
    return records


class Peer:
    """Our end of a connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        sock.settimeout(DEADLINE_S)

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def send_aside(self, data: bytes) -> threading.Thread:
        """Send from a thread, so that the caller can read at the same time."""
        thread = threading.Thread(target=self.sock.sendall, args=(data,))
        thread.start()
        return thread

    def read(self, size: int) -> bytes:
        """Exactly ``size`` bytes, fewer at the end."""
        got = bytearray()
        # OpenSSL 3.5 writes within a read, and finds the other side closed before it has read the end.
        with suppress(BrokenPipeError):
            while len(got) < size and (data := self.sock.recv(min(size - len(got), 1 << 18))):
                got += data
        return bytes(got)

    def read_head(self) -> bytes:
        """Everything up to and including a blank line."""
        got = b""
        while not got.endswith(b"\r\n\r\n"):
            data = self.sock.recv(1)
            assert data, got
            got += data
        return got

    def rest(self) -> bytes:
        """Everything up to the end."""
        return self.read(1 << 40)

    def is_reset(self) -> bool:
        """Whether what comes next is a reset."""
        try:
            return bool(self.sock.recv(1)) and False
        except ConnectionResetError:
            return True

    def end(self) -> None:
        """Send nothing more."""
        self.sock.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def close(self) -> None:
        self.sock.close()

    def error(self) -> tuple[int, str]:
        """Status and message of an answer of the proxy's own, which ends the connection."""
        head, _, body = self.rest().partition(b"\r\n\r\n")
        error = json.loads(body)
        assert set(error) == {"jsonrpc", "error"}
        assert error["error"]["code"] == -32000
        assert b"Content-Length: %d" % len(body) in head
        assert b"Connection: close" in head
        return int(head.split(b" ")[1]), error["error"]["message"]


class Upstream:
    """A server that does what the test says, connection by connection."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.context = context
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.listener.settimeout(DEADLINE_S)
        self.port = self.listener.getsockname()[1]
        self.peers: list[Peer] = []

    @property
    def origin(self) -> str:
        return f"{'https' if self.context else 'http'}://127.0.0.1:{self.port}"

    def accept(self) -> Peer:
        sock, _ = self.listener.accept()
        if self.context is not None:
            sock.settimeout(DEADLINE_S)
            sock = self.context.wrap_socket(sock, server_side=True)
        self.peers.append(Peer(sock))
        return self.peers[-1]

    def is_left_alone(self) -> bool:
        """Whether nobody has connected."""
        self.listener.setblocking(False)
        try:
            self.listener.accept()[0].close()
            return False
        except BlockingIOError:
            return True
        finally:
            self.listener.settimeout(DEADLINE_S)

    def close(self) -> None:
        for peer in self.peers:
            peer.close()
        self.listener.close()


class Proxy:
    """The relay as a process of its own; stopped, and its journal read, when the test has what it wants."""

    def __init__(
        self,
        trace: str,
        *options: str,
        recorder: str = "none",
        connect_s: float = 20,
        recorder_s: float = 1,
        loop: str = "",
        fault: str = "none",
    ) -> None:
        self.trace = trace
        drive = [sys.executable, "-S", "-m", "tests.relay.drive_http"]
        command = [*drive, trace, recorder, str(connect_s), str(recorder_s), loop or usual_loop, fault]
        self.process = subprocess.Popen(
            [*command, "--listen", "127.0.0.1:0", *options],
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(HERE.parent.parent)},
        )
        assert self.process.stderr is not None
        self.stderr = self.process.stderr
        self.greeting = self.stderr.readline().decode()
        address = self.greeting.partition("://")[2].partition(" ")[0].partition("/")[0]
        self.port = int(address.rpartition(":")[2] or 0)
        self.peers: list[Peer] = []

    def __enter__(self) -> "Proxy":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for peer in self.peers:
            peer.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.stderr.close()

    def connect(self, context: ssl.SSLContext | None = None) -> Peer:
        sock = socket.create_connection(("127.0.0.1", self.port), DEADLINE_S)
        if context is not None:
            sock = context.wrap_socket(sock, server_hostname="localhost")
        self.peers.append(Peer(sock))
        return self.peers[-1]

    def stop(self) -> list[Record]:
        """Tell it to stop; the records of its journal but the first one."""
        self.process.terminate()
        assert self.process.wait(DEADLINE_S) == 0, self.stderr.read()
        return read_journal(self.trace)[1:] if self.trace else []

    @contextmanager
    def stopped(self) -> Generator[None, None, None]:
        """Do not let it run meanwhile: what happens is ready at once when it goes on."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def status(self, name: str) -> int:
        """A number from /proc/<pid>/status."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1])
        raise LookupError(name)


def stream(records: list[Record], kind: int, connection: int = 1) -> bytes:
    """All payloads of one kind, joined."""
    return b"".join(payload for one, number, payload in records if (one, number) == (kind, connection))


def kinds(records: list[Record], connection: int = 1) -> list[int]:
    """The kinds of a connection's records in order, runs of one kind as one."""
    found = [kind for kind, number, _ in records if number == connection]
    return [kind for place, kind in enumerate(found) if not place or found[place - 1] != kind]
