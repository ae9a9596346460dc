"""One of the two sockets of a tunnel, to the client or to the server: the bytes that wait to be sent, the
watched events, and the closing."""

from __future__ import annotations

import socket
import struct

from mcpproxy.record.relay.http.loop import READ, WRITE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from mcpproxy.record.relay.http.dial import Sock
    from mcpproxy.record.relay.http.loop import Handler, Loop

_NOT_WATCHED: Final = -1  # in place of the watched events, which may be none (0)
_ABORT: Final = struct.pack("ii", 1, 0)  # SO_LINGER: close with a reset


def _ignore(events: int) -> None:
    """Do nothing: the handler of a closed socket."""


class TunnelSocket:
    """A connected socket that never blocks. ``loop`` calls ``handler`` when the socket is ready."""

    __slots__ = (
        "_handler",
        "_loop",
        "_send",
        "_sock",
        "broken",
        "ended",
        "events",
        "fd",
        "finished",
        "finishing",
        "recv",
        "rest",
    )

    def __init__(self, loop: Loop, sock: Sock, handler: Handler) -> None:
        self._loop = loop
        self._sock = sock
        self._handler = handler
        self.fd = sock.fileno()
        self.recv = sock.recv
        self._send = sock.send
        self.rest: memoryview | None = None  # bytes that wait to be sent
        self.events = _NOT_WATCHED  # the watched events
        self.ended = False  # the peer has closed its sending side
        self.finishing = False  # our sending side is closed as soon as the rest is sent
        self.finished = False  # our sending side is closed
        self.broken = False  # the peer accepts no more bytes

    def put(self, out: bytes | memoryview) -> bool:
        """Send ``out`` or, if bytes wait already, add it to them. Bytes that do not fit wait as ``rest``.
        Return whether all bytes were sent.

        Raises:
            OSError: the peer accepts no more bytes.
        """
        if self.rest is not None:
            self.rest = memoryview(bytes(self.rest) + out)
            return False
        try:
            taken = self._send(out)
        except BlockingIOError:
            taken = 0
        if taken == len(out):
            return True
        self.rest = memoryview(out)[taken:]
        return False

    def flush(self) -> bool:
        """Send the bytes that wait; return and raise like ``put``."""
        rest, self.rest = self.rest, None
        return rest is None or self.put(rest)

    def watch(self, for_bytes: bool) -> None:
        """Watch for room to send if there is a rest, and for bytes to read if ``for_bytes``."""
        events = (READ if for_bytes else 0) | (WRITE if self.rest is not None else 0)
        if events == self.events:
            return
        if self.events != _NOT_WATCHED:
            self._loop.change(self.fd, events)
        elif events:
            self._loop.watch(self.fd, events, self._handler)
        else:
            return
        self.events = events

    def unwatch(self) -> None:
        """Stop watching the socket, even for a broken connection."""
        if self.events != _NOT_WATCHED:
            self.events = _NOT_WATCHED
            self._loop.forget(self.fd)

    def finish(self) -> None:
        """Close our sending side, immediately or after the rest is sent."""
        self.finishing = True
        if self.rest is None and not self.finished:
            self.finished = True
            try:
                self._sock.shutdown(socket.SHUT_WR)
            except OSError:  # the connection is gone; reading will show that
                pass

    def close(self) -> None:
        try:
            self.unwatch()
        finally:
            self._handler = _ignore  # breaks the reference cycle with the tunnel
            self._sock.close()

    def abort(self) -> None:
        """Make ``close`` reset the connection."""
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
