"""TLS to clients and to servers, with sockets that never block.

This module is imported only if TLS is used, because the module ssl takes longer to load than the whole proxy.
"""

from __future__ import annotations

import socket
import ssl

from mcpproxy.base.upstream.connecting import tls_context
from mcpproxy.base.upstream.tls_failures import tls_reason
from mcpproxy.record.relay.http.loop import READ, WRITE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    from mcpproxy.base.upstream.settings import UpstreamSettings
    from mcpproxy.record.relay.http.loop import Loop, Timer, Timers

HANDSHAKE_S: Final = 10.0
"""How long a client may take for its handshake."""

_PROTOCOLS: Final = ["http/1.1"]
"""The protocols that are offered by ALPN, the choice of a protocol during the TLS handshake."""


class TlsSocket:
    """A TLS socket that behaves like a plain socket: a call that would block raises ``BlockingIOError``, and
    an end without ``close_notify`` is not an error but the end of the stream."""

    def __init__(self, sock: ssl.SSLSocket) -> None:
        self._sock = sock
        self.setsockopt = sock.setsockopt
        self.fileno = sock.fileno
        self.close = sock.close

    def handshake(self) -> int:
        """Continue the handshake. Return the event that it waits for, 0 when it is done.

        Raises:
            OSError: the handshake failed.
        """
        try:
            self._sock.do_handshake()
        except ssl.SSLWantReadError:
            return READ
        except ssl.SSLWantWriteError:
            return WRITE
        return 0

    def recv(self, size: int) -> bytes:
        try:
            return self._sock.recv(size)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None

    def send(self, data: bytes | memoryview) -> int:
        try:
            return self._sock.send(data)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None

    def shutdown(self, how: int) -> None:
        # close_notify tells a client that the answer is complete. A server only gets a FIN:
        # unwrap() could discard what the server has just sent.
        if self._sock.server_side:
            try:
                self._sock.unwrap()
            except (OSError, ValueError):  # the client has not answered yet
                pass
        # SSLSocket.shutdown would discard the keys, so no more bytes could be read.
        socket.socket.shutdown(self._sock, how)


class TlsClient:
    """TLS to upstream (the server), as ``settings`` say.

    Raises:
        OSError: a file cannot be used.
    """

    def __init__(self, settings: UpstreamSettings) -> None:
        self._settings = settings
        self._context = tls_context(settings)
        self._context.set_alpn_protocols(_PROTOCOLS)

    def wrap(self, sock: socket.socket, host: str) -> TlsSocket:
        """Return a TLS socket over a connected socket; the caller makes the handshake.

        Raises:
            OSError: the connection is over already.
        """
        return TlsSocket(self._context.wrap_socket(sock, do_handshake_on_connect=False, server_hostname=host))

    def explain(self, error: OSError) -> str:
        """Return why a handshake failed, for the user."""
        return self.failure(error) or error.strerror or "the connection ended"

    def failure(self, error: OSError) -> str:
        """Return why TLS failed, for the user; empty if ``error`` is not about TLS."""
        return tls_reason(error, self._settings) if isinstance(error, ssl.SSLError) else ""


class TlsServer:
    """TLS to clients. ``cert`` and ``key`` are paths of PEM files; without ``key``, the key is in ``cert``.

    Raises:
        OSError: certificate or key cannot be read, or do not belong together.
    """

    def __init__(self, cert: str, key: str) -> None:
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.set_alpn_protocols(_PROTOCOLS)
        self._context.load_cert_chain(cert, key or None)

    def handshake(
        self, loop: Loop, timers: Timers, sock: socket.socket, done: Callable[[TlsSocket], None]
    ) -> None:
        """Make the handshake with a client, then call ``done``. If it fails, the connection is closed.

        Raises:
            OSError: the client has closed already.
        """
        tls = TlsSocket(self._context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False))
        _Handshake(loop, timers, tls, done)


class _Handshake:
    """A handshake with a client, which sends first. Calls ``done`` with the socket on success."""

    def __init__(self, loop: Loop, timers: Timers, tls: TlsSocket, done: Callable[[TlsSocket], None]) -> None:
        self._loop = loop
        self._tls = tls
        self._done = done
        self._fd = tls.fileno()
        loop.watch(self._fd, READ, self.continue_handshake)
        self._timer: Timer = timers.start(HANDSHAKE_S, self._give_up)

    def continue_handshake(self, events: int) -> None:
        del events
        try:
            event = self._tls.handshake()
        except OSError:
            self._give_up()
            return
        if event:
            self._loop.change(self._fd, event)
            return
        self._timer.stop()
        self._loop.forget(self._fd)
        self._done(self._tls)

    def abandon(self, why: str) -> None:
        """Close the connection after a bug in mcpproxy; the journal has no records of it yet."""
        del why
        try:
            self._give_up()
        finally:
            self._tls.close()

    def _give_up(self) -> None:
        self._timer.stop()
        self._loop.forget(self._fd)
        self._tls.close()
