"""Open the connection to upstream (the server): look up its addresses, connect, make the TLS handshake. If
the server is reached through an HTTP proxy, connect to that, and ask it for a tunnel where one is needed.

On loopback a connection is established when ``connect`` returns, although it reports that the connection is
in progress. So the state is checked once before the loop waits for it.
"""

from __future__ import annotations

import errno
import os
import socket

from mcpproxy.base.upstream.http_proxy import status_of
from mcpproxy.record.relay.http.loop import BROKEN, READ, WRITE
from mcpproxy.record.relay.http.request_head import LIMIT_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpproxy.base.upstream.http_proxy import HttpProxy
    from mcpproxy.record.relay.http.loop import Loop, Timer, Timers
    from mcpproxy.record.relay.http.resolve import Address, Answer, Resolver, Upstream
    from mcpproxy.record.relay.http.tls import TlsClient, TlsSocket

    Sock = socket.socket | TlsSocket


class Dialer:
    """The objects and settings that all `Dial` objects share.

    ``timeout_s`` is divided by the number of addresses. Each step of an attempt (connecting, the answer of an
    HTTP proxy, the TLS handshake) may take that share.
    """

    def __init__(
        self, loop: Loop, timers: Timers, resolver: Resolver, tls: TlsClient | None, timeout_s: float
    ) -> None:
        self.loop = loop
        self.timers = timers
        self.resolver = resolver
        self.tls = tls
        self.timeout_s = timeout_s


class Dial:
    """An attempt to connect to ``upstream``.

    On success ``sock`` is set; on failure ``failure`` is set, to an HTTP status and a sentence fragment. Then
    ``settled`` is called, perhaps before ``start`` returns. If a bug in mcpproxy prevents both, ``abandon``
    is called with the reason.
    """

    def __init__(
        self,
        dialer: Dialer,
        upstream: Upstream,
        settled: Callable[[], None],
        abandon: Callable[[str], None],
    ) -> None:
        self.abandon = abandon
        self.sock: Sock | None = None
        self.failure: tuple[int, str] | None = None
        self._dialer = dialer
        self._upstream = upstream
        self._proxy = upstream.proxy  # the HTTP proxy in front of the server, if there is one
        self._peer = upstream if upstream.proxy is None else upstream.proxy  # the host to connect to
        self._name = upstream.address if upstream.proxy is None else upstream.proxy.name
        self._answer = b""  # the beginning of the proxy's answer
        self._settled = settled
        self._addresses: list[Address] = []
        self._address: Address | None = None
        self._timeout_s = dialer.timeout_s
        self._pending: Sock | None = None  # not connected yet, or without a complete TLS handshake
        self._watched = -1  # the descriptor of ``_pending`` while the loop watches it
        self._timer: Timer | None = None
        self._is_cancelled = False

    def start(self) -> None:
        """Begin the attempt: look up the addresses, then try one after another."""
        self._dialer.resolver.ask(self._peer.host, self._peer.port, self._on_addresses)

    def cancel(self) -> None:
        """Give up the attempt. ``settled`` is not called any more."""
        self._is_cancelled = True
        self._drop_socket()

    def _on_addresses(self, answer: Answer) -> None:
        if self._is_cancelled:
            return
        if isinstance(answer, OSError):
            name = self._name if self._proxy else self._peer.host
            self._fail(502, f"{name} is not found ({answer.strerror}); check the name")
            return
        self._addresses = list(answer)
        self._timeout_s = self._dialer.timeout_s / len(answer)
        self._try_next_address(0)

    def _try_next_address(self, error: int) -> None:
        """Try the next address; ``error`` is the error number of the previous attempt, or 0."""
        while self._addresses:
            self._address = family, address = self._addresses.pop(0)
            try:
                sock = socket.socket(family, socket.SOCK_STREAM)
            except OSError as caught:
                error = caught.errno or 0
                continue
            sock.setblocking(False)
            error = sock.connect_ex(address)
            if error in (0, errno.EINPROGRESS, errno.EWOULDBLOCK):
                self._pending = sock
                self._on_connecting(WRITE)
                if self._pending is sock and self._watched < 0:
                    self._watch(WRITE, self._on_connecting)
                return
            sock.close()
        if error == errno.ETIMEDOUT:
            self._fail(504, f"{self._name} did not answer in time; check that it can be reached")
        else:
            reason = os.strerror(error) if error else "no address"
            what = "it" if self._proxy else "the server"
            self._fail(502, f"cannot connect to {self._name} ({reason}); is {what} running?")

    def _on_connecting(self, events: int) -> None:
        """Find out whether the attempt to connect has succeeded or failed."""
        sock = self._pending
        if not events & (WRITE | BROKEN) or not isinstance(sock, socket.socket):
            return
        try:
            error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if not error:
                sock.getpeername()
        except OSError:  # not connected yet
            return
        if error:
            self._drop_socket()
            self._try_next_address(error)
        else:
            self._on_connected(sock)

    def _on_connected(self, sock: socket.socket) -> None:
        self._stop_watching()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._address is not None:
            self._dialer.resolver.prefer(self._peer.host, self._peer.port, self._address)
        if self._proxy is not None and self._upstream.by_connect:
            self._ask_proxy(self._proxy, sock)
        else:
            self._begin_tls(sock)

    def _ask_proxy(self, proxy: HttpProxy, sock: socket.socket) -> None:
        """Ask the HTTP proxy for a tunnel to the server. The socket's buffer is empty, so the request
        fits."""
        try:
            sock.send(proxy.connect_head(self._upstream.host, self._upstream.port))
        except OSError as error:
            self._drop_socket()
            self._fail(502, f"cannot connect to {proxy.name} ({error.strerror}); is it running?")
            return
        self._watch(READ, self._on_proxy_answer)

    def _on_proxy_answer(self, events: int) -> None:
        """Read the head of the HTTP proxy's answer, and no further: later bytes are the server's."""
        del events
        sock, proxy = self._pending, self._proxy
        if proxy is None or not isinstance(sock, socket.socket):
            return
        try:
            data = sock.recv(LIMIT_BYTES, socket.MSG_PEEK)
            answer = self._answer + data
            end = answer.find(b"\r\n\r\n") + 4
            sock.recv(len(data) if end < 4 else end - len(self._answer))
        except BlockingIOError:
            return
        except OSError:
            data = answer = b""
            end = 0
        status = status_of(answer)
        if not data or len(answer) > LIMIT_BYTES or (end >= 4 and not status):
            self._drop_socket()
            self._fail(502, f"{proxy.name} does not answer as a proxy")
        elif end < 4:
            self._answer = answer
        elif 200 <= status < 300:
            self._stop_watching()
            self._begin_tls(sock)
        else:
            self._drop_socket()
            self._fail(502, proxy.refusal(status))

    def _begin_tls(self, sock: socket.socket) -> None:
        tls = self._dialer.tls
        if not self._upstream.is_tls or tls is None:
            self._succeed(sock)
            return
        try:
            self._pending = tls.wrap(sock, self._upstream.host)
        except OSError as error:  # the server has closed the connection already
            self._drop_socket()
            self._fail_handshake(error)
            return
        self._on_handshake(0)

    def _on_handshake(self, events: int) -> None:
        del events
        tls = self._pending
        if tls is None or isinstance(tls, socket.socket):
            return
        try:
            event = tls.handshake()
        except OSError as error:
            self._drop_socket()
            self._fail_handshake(error)
            return
        if not event:
            self._stop_watching()
            self._succeed(tls)
        elif self._watched < 0:
            self._watch(event, self._on_handshake)
        else:
            self._dialer.loop.change(self._watched, event)

    def _watch(self, events: int, handler: Callable[[int], None]) -> None:
        assert self._pending is not None
        self._watched = self._pending.fileno()
        self._dialer.loop.watch(self._watched, events, handler)
        self._timer = self._dialer.timers.start(self._timeout_s, self._on_timeout)

    def _stop_watching(self) -> None:
        """Stop watching the socket, and stop the timer."""
        if self._watched >= 0:
            self._dialer.loop.forget(self._watched)
            self._watched = -1
        if self._timer is not None:
            self._timer.stop()
            self._timer = None

    def _drop_socket(self) -> None:
        """Give up the socket of the current attempt, if there is one."""
        self._stop_watching()
        if self._pending is not None:
            self._pending.close()
            self._pending = None

    def _on_timeout(self) -> None:
        self._drop_socket()
        self._try_next_address(errno.ETIMEDOUT)

    def _succeed(self, sock: Sock) -> None:
        self._pending = None
        self.sock = sock
        self._settled()

    def _fail(self, status: int, why: str) -> None:
        self.failure = status, why
        self._settled()

    def _fail_handshake(self, error: OSError) -> None:
        assert self._dialer.tls is not None
        self._fail(502, no_tls(self._upstream.address, self._dialer.tls.explain(error)))


def no_tls(address: str, reason: str) -> str:
    """Return the text for a server with which the TLS handshake failed."""
    return f"no TLS with {address}: {reason}"
