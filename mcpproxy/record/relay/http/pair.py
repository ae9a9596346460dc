"""The two sockets of a tunnel, to the client and to upstream (the server): when each socket is read, which
bytes wait for it, and how both are closed.

The subclass `Tunnel` decides which bytes are forwarded and which requests mcpproxy answers itself. A gate, if
there is one, holds messages until it has decided whether they pass.
"""

from __future__ import annotations

from mcpproxy.record.relay import journal as journals
from mcpproxy.record.relay.http.loop import BROKEN, READ, WRITE
from mcpproxy.record.relay.journal import RESET

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from mcpproxy.record.relay.http.connection_records import ConnectionRecords
    from mcpproxy.record.relay.http.dial import Dial
    from mcpproxy.record.relay.http.proxy_interface import ProxyInterface
    from mcpproxy.record.relay.http.request_reader import RequestReader
    from mcpproxy.record.relay.http.socket import TunnelSocket

CHUNK_BYTES: Final = 64 << 10
"""How many bytes are read at once."""


class Pair:
    """The connection of one client, and its upstream connection or the attempt to open one."""

    __slots__ = (
        "_dial",
        "_proxy",
        "_requests",
        "_upstream",
        "client",
        "holds_client",
        "holds_upstream",
        "is_over",
        "records",
    )

    def __init__(
        self, proxy: ProxyInterface, client: TunnelSocket, records: ConnectionRecords, requests: RequestReader
    ) -> None:
        self._proxy = proxy
        self.client = client
        self.records = records
        self._requests = requests
        self._upstream: TunnelSocket | None = None
        self._dial: Dial | None = None  # the attempt to open the upstream connection
        self.is_over = False
        # Whether a gate keeps the client, or upstream, from being read.
        self.holds_client = self.holds_upstream = False

    def start(self) -> None:
        """Begin to read the client."""
        self.watch()

    def stop(self, why: str) -> None:
        """Close both connections. ``why`` is recorded, unless nothing of the client is recorded yet."""
        if self.records.number:
            self.records.note("closed", why, journals.now_ns())
        self.close()

    def abandon(self, why: str) -> None:
        """Close both connections after a fault (a bug in mcpproxy), in whatever state they are."""
        now_ns = journals.now_ns()
        was_over, self.is_over = self.is_over, True
        self._proxy.tunnels.discard(self)
        try:
            if self.records.number or not was_over:
                self.records.note("closed", why, now_ns)
            self.records.close(now_ns)
        finally:
            try:
                self._drop_upstream()
            finally:
                self.client.close()

    def _drop_upstream(self) -> None:
        """Close the upstream connection, or cancel the attempt to open it."""
        dial, self._dial = self._dial, None
        upstream, self._upstream = self._upstream, None
        try:
            if dial is not None:
                dial.cancel()
        finally:
            if upstream is not None:
                upstream.close()

    # Ends.

    def _on_broken(self, end_socket: TunnelSocket) -> None:
        """Send nothing more to ``end_socket``, which accepts no more bytes.

        Bytes that a server sent before are still delivered. If the client accepts no more, or the server has
        already ended its side, both connections are reset."""
        end_socket.broken = True
        end_socket.rest = None
        if end_socket is self.client or end_socket.ended:
            self._on_reset(end_socket)
        else:
            self.watch()

    def _on_reset(self, end_socket: TunnelSocket) -> None:
        """Reset and close both connections, because that of ``end_socket`` was reset or is broken."""
        kind = journals.CLIENT_EOF if end_socket is self.client else journals.SERVER_EOF
        self.records.end(kind, journals.now_ns(), RESET)
        for each_end in (self.client, self._upstream):
            if each_end is not None:
                each_end.abort()
        self.close()

    def _close_if_done(self) -> None:
        """Close both connections if both directions have ended."""
        upstream = self._upstream
        if upstream is None:
            is_upstream_done = self.client.ended and self._dial is None
        else:
            is_upstream_done = upstream.broken or (self.client.ended and upstream.finished)
        if is_upstream_done and self.client.finished:
            self.close()

    def close(self) -> None:
        """Close both connections, and end their records."""
        if self.is_over:
            return
        self.is_over = True
        self._drop_upstream()
        self.client.close()
        self.records.close(journals.now_ns())
        self._proxy.tunnels.discard(self)

    # Readiness.

    def _read(self, end_socket: TunnelSocket, events: int) -> bytes | None:
        """Return the bytes that the peer has sent, ``b""`` if it has ended; ``None`` if nothing can be read.

        A connection that was reset is handled here.
        """
        if events & end_socket.events != READ and not self._handle_other_events(end_socket, events):
            return None
        try:
            return end_socket.recv(CHUNK_BYTES)
        except BlockingIOError:
            return None
        except OSError as error:
            self._on_read_failed(end_socket, error)
            return None

    def _on_read_failed(self, end_socket: TunnelSocket, error: OSError) -> None:
        """Handle an error while reading ``end_socket``."""
        del error
        self._on_reset(end_socket)

    def _handle_other_events(self, end_socket: TunnelSocket, events: int) -> bool:
        """Handle all events except readability. Return whether ``end_socket`` can be read now."""
        if events & WRITE and end_socket.rest is not None:
            self._flush(end_socket)
        if self.is_over:
            return False
        if end_socket.events & READ:
            return bool(events & (READ | BROKEN))
        if events & BROKEN:
            if end_socket.ended and not end_socket.finished:
                self._on_reset(end_socket)  # until now the peer had closed its sending side only
            else:  # closed in both directions, or not read until the other end has room
                end_socket.unwatch()
        return False

    def _flush(self, end_socket: TunnelSocket) -> None:
        """Send the bytes that wait for ``end_socket``, as many as it accepts."""
        try:
            if not end_socket.flush():
                return
        except OSError:
            self._on_broken(end_socket)
            return
        if end_socket.finishing:
            end_socket.finish()
        self.watch()
        self._close_if_done()

    def watch(self) -> None:
        """Watch each end for the events that can be handled now."""
        if self.is_over:
            return
        client, upstream = self.client, self._upstream
        reads_client = (
            not client.ended
            and not self.holds_client
            and self._dial is None
            and (upstream is None or (upstream.rest is None and not upstream.broken))
            and not self._requests.is_full
        )
        client.watch(reads_client)
        if upstream is not None:
            upstream.watch(not upstream.ended and client.rest is None and not self.holds_upstream)
