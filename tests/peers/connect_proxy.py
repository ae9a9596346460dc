"""An HTTP proxy in a thread of the tests: every name that it is asked for leads to this machine."""

import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress

from tests.relay.hosts import DEADLINE_S


class ConnectProxy:
    """A proxy. ``asked`` are the heads that it got, and ``status`` is what it answers instead, if not 0.

    With ``credentials`` it serves nobody without this value of ``Proxy-Authorization``.
    """

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.status = 0
        self.credentials = b""
        self.answer: bytes | None = None
        """What it answers to everything, before it closes."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._socks: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        """Close all connections, and accept no more."""
        for sock in (self._listener, *self._socks):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        self._listener.close()
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
            self._start(self._serve, sock)

    def _start(self, work: object, *arguments: socket.socket) -> None:
        assert callable(work)
        self._socks += arguments
        thread = threading.Thread(target=work, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError):
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                if not (byte := client.recv(1)):
                    return
                head += byte
            self.asked.append(head)
            status = self.status
            if self.credentials and b"Proxy-Authorization: %s\r\n" % self.credentials not in head:
                status = 407
            if self.answer is not None or status:
                refused = b"HTTP/1.1 %d No\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n" % status
                client.sendall(refused if self.answer is None else self.answer)
                client.shutdown(socket.SHUT_WR)
                return
            method, target, _ = head.split(b"\r\n")[0].split(b" ")
            authority = target if method == b"CONNECT" else target.split(b"/")[2]
            server = socket.create_connection(("127.0.0.1", int(authority.rpartition(b":")[2])), DEADLINE_S)
            server.settimeout(None)
            if method == b"CONNECT":
                client.sendall(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")
            else:
                lines = [line for line in head.split(b"\r\n") if not line.startswith(b"Proxy-")]
                lines[0] = lines[0].replace(b"http://" + authority, b"")
                # The next request on this connection could be for another server.
                lines.insert(1, b"Connection: close")
                server.sendall(b"\r\n".join(lines))
            self._start(_copy, client, server)
            self._socks.append(server)
            _copy(server, client)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextmanager
def connect_proxy() -> Generator[ConnectProxy]:
    """Yield a proxy that is closed at the end."""
    proxy = ConnectProxy()
    try:
        yield proxy
    finally:
        proxy.close()
