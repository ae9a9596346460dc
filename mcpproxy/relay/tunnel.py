"""One client connection and the upstream connection that belongs to it.

    client ──► heads are read and rewritten, bodies counted ──► upstream       journaled as CLIENT
    client ◄── as it comes ◄── upstream                                        journaled as SERVER

*Order.* A chunk is read, its time is taken, it is sent on, and then it is journaled as it was read, all
before anything else is read. So no answer stands before its question. The beginning of a head stays here
until the head is whole; it is journaled when it goes on.

*Back-pressure.* What one end does not take at once is its ``rest``, of one chunk at most, and the other
end is not read until it is gone.

*Ends.* A FIN goes on as a FIN in its direction, a reset as a reset of the other connection. When upstream
does not take a request any more (it may have answered early and closed), what it has said is still
delivered. The tunnel is over when both directions are.

*Our own answers* go out only where nobody else can be speaking: before upstream was asked anything, or
when it has answered what it was asked. Otherwise the connection ends without one.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import time

from mcpproxy.relay import journal as journals
from mcpproxy.relay.body import Body, body_of
from mcpproxy.relay.head import Refusal, check_beginning
from mcpproxy.relay.journal import quoted
from mcpproxy.relay.loop import BROKEN, READ, WRITE
from mcpproxy.relay.reply import ESTABLISHED, reply
from mcpproxy.relay.switch import Switch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from mcpproxy.relay.http import Proxy
    from mcpproxy.relay.resolve import Address, Answer
    from mcpproxy.relay.rewrite import Rewriter
    from mcpproxy.relay.route import Route, Upstream
    from mcpproxy.relay.tls import TlsSocket

CHUNK_BYTES: Final = 64 << 10
"""How much is read at once."""

LINGER_S: Final = 5.0
"""How long a client that was refused may take to hear it; closing at once could cost it the answer."""

_ABORT: Final = struct.pack("ii", 1, 0)
_NOT_WATCHED: Final = -1

# What a client's bytes are.
_HTTP: Final = 0
_OPAQUE: Final = 1
_IGNORED: Final = 2


class End:
    """One of the two sockets."""

    __slots__ = ("broken", "ended", "events", "fd", "finished", "finishing", "recv", "rest", "send", "sock")

    def __init__(self, sock: socket.socket | TlsSocket) -> None:
        self.sock = sock
        self.fd = sock.fileno()
        self.recv = sock.recv
        self.send = sock.send
        self.rest: memoryview | None = None  # what it was sent and did not take yet
        self.events = _NOT_WATCHED
        self.ended = False  # it will send nothing more
        self.finishing = False  # it will be sent nothing beyond its rest
        self.finished = False  # it was told so
        self.broken = False  # it takes nothing more


class Tunnel:
    """See the top of this file. ``on_...`` are called when something is ready, the rest is how they do it."""

    __slots__ = (
        "_addresses",
        "_answers",
        "_answers_at_bytes",
        "_answers_at_head",
        "_body",
        "_held",
        "_has_asked",
        "_is_client_deaf",
        "_is_pipelined",
        "_route",
        "_switch",
        "_upgrade",
        "client",
        "deadline",
        "is_over",
        "number",
        "peer",
        "proxy",
        "rewriter",
        "stage",
        "upstream",
    )

    def __init__(self, proxy: Proxy, sock: socket.socket | TlsSocket, peer: str) -> None:
        self.proxy = proxy
        self.peer = peer
        self.number = 0  # in the journal; 0 until the client has said something
        self.client = End(sock)
        self.upstream: End | None = None
        self.stage = _HTTP
        self.deadline = 0.0  # monotonic seconds, 0 for none
        self.is_over = False
        self.rewriter: Rewriter | None = None
        self._held = b""  # client's bytes that did not go on yet
        self._body: Body | None = None  # of the request that is passing
        self._route: Route | None = None  # of the last request
        self._upgrade = False  # the request that is passing asked for one
        self._switch: Switch | None = None  # waits for the answer to it
        self._addresses: list[Address] = []  # upstream's, those not tried yet
        self._has_asked = False
        self._is_pipelined = False  # the last request came before the one before it was answered
        self._is_client_deaf = False  # the client is not read any more
        # How often upstream has spoken: ever, when we last sent it something, when its last head went out.
        self._answers = self._answers_at_bytes = self._answers_at_head = 0

    def start(self) -> None:
        """Begin to read the client."""
        self.client.events = READ
        self.proxy.loop.watch(self.client.fd, READ, self.on_client)

    # From the client.

    def on_client(self, events: int) -> None:
        client = self.client
        if events != READ and not self._prepare(client, events):
            return
        try:
            data = client.recv(CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self._on_reset(client)
            return
        now = time.monotonic_ns()
        if not data:
            self._on_client_end(now)
        elif self.stage == _HTTP:
            self._take(data, now)
        elif self.stage == _OPAQUE:
            self._send_up(data, data, now)
        else:
            self._record(journals.CLIENT, now, data)

    def _take(self, data: bytes, now: int) -> None:
        """Find the heads in what the client sent, and send on what may go on."""
        buffer = self._held + data if self._held else data
        searched = max(0, len(self._held) - 3)
        size = len(buffer)
        at = 0
        out: list[bytes] = []
        try:
            while at < size:
                body = self._body
                if body is not None:
                    stop = body.feed(buffer, at)
                    out.append(buffer[at:stop])
                    at = stop
                    if body.is_over:
                        self._body = None
                elif self._upgrade:
                    break  # what these bytes are depends on the answer
                elif buffer.startswith(b"\r\n", at):
                    at += 2  # left over from an old client's body (RFC 9112, section 2.2)
                else:
                    stop = buffer.find(b"\r\n\r\n", max(at, searched)) + 4
                    if stop < 4:
                        check_beginning(buffer[at:])
                        break
                    route = self.proxy.router.route(buffer[at:stop])
                    self._begin(route, bool(out), now)
                    out.append(route.head)
                    at = stop
        except Refusal as refusal:
            self._send_up(b"".join(out), buffer, now)
            self._refuse(refusal, now)
            return
        self._held = buffer[at:]
        if at:
            self._send_up(out[0] if len(out) == 1 else b"".join(out), buffer[:at], now)
        if self._upgrade and self._body is None:
            self._await_switch()

    def _begin(self, route: Route, is_behind_another: bool, now: int) -> None:
        """A request begins. ``is_behind_another``: it came in one chunk with the one before it."""
        before = self._route
        self._is_pipelined = self._has_asked and (
            is_behind_another or self._answers == self._answers_at_bytes
        )
        if before is not None and before.upstream.address != route.upstream.address:
            self._change_upstream(now)
        self._route = route
        self._has_asked = True
        self._answers_at_head = self._answers
        self._body = body_of(route.length)
        self._upgrade = route.has_upgrade or route.has_tunnel
        if route.note:
            self._connected_record(now)
            self._note("rewrote-head", route.note, now)
        self.proxy.expect_answer(self, route, self._is_pipelined)

    def _send_up(self, out: bytes, data: bytes, now: int) -> None:
        """Send ``out`` to upstream for ``data``, which is what the client sent."""
        upstream = self.upstream
        if upstream is None:
            if self._route is not None and self.stage == _HTTP and not self._is_client_deaf and self._has_asked:
                self._open(self._route.upstream, out)
            self._connected_record(now)
            self._record(journals.CLIENT, now, data)
            return
        try:
            taken = upstream.send(out) if out else 0
        except BlockingIOError:
            taken = 0
        except OSError:
            self._record(journals.CLIENT, now, data)
            self._on_broken(upstream)
            return
        self._record(journals.CLIENT, now, data)
        self._answers_at_bytes = self._answers
        if taken < len(out):
            upstream.rest = memoryview(out)[taken:]
            self._watch()

    def _on_client_end(self, now: int) -> None:
        client = self.client
        client.ended = True
        if self._held:
            self._connected_record(now)
            self._record(journals.CLIENT, now, self._held)
            self._held = b""
        self._record(journals.CLIENT_EOF, now)
        if self.upstream is not None:
            self._finish(self.upstream)
        self._watch()
        self._close_if_done()
