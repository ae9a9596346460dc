"""An HTTP server that remembers what it heard, and the command before it."""

import re
import signal
import socket
import subprocess
import threading
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.attacks.stage import DEADLINE_S, BrokenError, Stage, is_line, read
from tests.relay.hosts import until_recorded

_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.I)


class Origin:
    """Answers each request with ``answer``; ``heard`` are the requests, heads and bodies."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.answer = b"{}"
        self.fields: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # closed alone, it would not end an accept
        self._accepting.join()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # shut down
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(DEADLINE_S)
        with connection:
            try:
                while asked := message(connection):
                    self.heard.append(asked)
                    head = [b"HTTP/1.1 200 OK", b"Content-Length: %d" % len(self.answer), *self.fields]
                    kind = b"Content-Type: application/json"
                    connection.sendall(b"\r\n".join([*head, kind, b"", self.answer]))
            except OSError:  # the proxy has gone
                return


def message(connection: socket.socket) -> bytes:
    """Head and body; less where the connection ended before."""
    got = b""
    while b"\r\n\r\n" not in got:
        if not (data := connection.recv(1 << 16)):
            return got
        got += data
    head = got.partition(b"\r\n\r\n")[0]
    found = _LENGTH.search(head)
    size = len(head) + 4 + (int(found[1]) if found else 0)
    while len(got) < size and (data := connection.recv(1 << 16)):
        got += data
    return got


class Proxied:
    """``mcpproxy http`` before ``origin``, a server or its URL; what it said is in ``said``."""

    def __init__(
        self,
        stage: Stage,
        origin: Origin | str,
        *options: str,
        path: str = "",
        trace: str = "h.jsonl",
        before: tuple[str, ...] = (),
    ) -> None:
        self.trace = stage.folder / trace
        upstream = origin if isinstance(origin, str) else f"http://127.0.0.1:{origin.port}{path}"
        listen = ("--listen", "127.0.0.1:0", "--trace", str(self.trace))
        self._process = stage.start(
            "http", upstream, *listen, *options, before=before, stdin=subprocess.DEVNULL
        )
        said = read(self._process.stderr, lambda got: b"http://127.0.0.1:" in got and is_line(got))
        self.said = said.decode()
        self.port = int(self.said.partition("http://127.0.0.1:")[2].partition("/")[0].partition(" ")[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()

    def ask(self, method: str, target: str, body: bytes = b"", fields: dict[str, str] | None = None) -> bytes:
        """The answer to one request on a connection of its own; empty where there is none."""
        lines = [f"{method} {target} HTTP/1.1", f"Host: 127.0.0.1:{self.port}"]
        lines += [f"{name}: {value}" for name, value in (fields or {}).items()]
        head = "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode()
        with socket.create_connection(("127.0.0.1", self.port), DEADLINE_S) as connection:
            try:
                connection.sendall(head + body)
                return message(connection)
            except ConnectionError:
                return b""

    def stop(self) -> bytes:
        """End it; the trace."""
        self._process.send_signal(signal.SIGTERM)
        try:
            _, err = self._process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            raise BrokenError("http does not end") from None
        self.said += err.decode(errors="replace")
        until_recorded(self.trace)
        return Path(self.trace).read_bytes()
