"""One client connection and its connection to the server (upstream).

    client ──► heads are read and rewritten, bodies counted ──► upstream       journaled as CLIENT
    client ◄── bytes are forwarded unchanged ◄── upstream                      journaled as SERVER

The journal is the copy of the traffic from which the recorder makes the trace. If a `Rewriter` changes
addresses in an answer, the journal gets the bytes that upstream sent.

*Order.* A chunk is read, its time is taken, it is recorded as it was read, and then it is forwarded, all
before anything else is read. So in the journal no answer precedes its request. The beginning of a head waits
in the `RequestReader` until the head is complete; it is recorded when it is forwarded. A record is stored in
the crash buffer (mapped memory that survives a kill), without a system call, and all records of a turn of the
loop are journaled together.

*Back-pressure.* Bytes that one end does not accept immediately become its ``rest``, and the other end is not
read until they are sent.

*Ends.* A FIN is forwarded as a FIN in its direction, after the bytes before it, and a reset as a reset of
the other connection. When upstream accepts no more of a request (it may have answered early and closed), the
bytes that it has sent are still delivered. The tunnel is over when both directions have ended.

*The proxy's own answers* are sent only when no answer of the server can be under way: before any request was
forwarded, when the server cannot be reached, after the server has answered the last request, while the last
request is incomplete and not answered yet, or after the server has ended TLS without an answer. Otherwise
the connection ends without an answer.

*Gate.* With a ``TunnelGate`` the bytes of both peers go to the gate instead, which holds messages until it
has decided about them. It calls ``forward`` and ``give_down`` for bytes that may pass, and ``refuse`` for a
request that it answers."""

from __future__ import annotations

from mcpproxy.base.upstream.http_proxy import status_of
from mcpproxy.record.relay import journal as journals
from mcpproxy.record.relay.http.connection_fields import UpgradeResponse, may_have_hops
from mcpproxy.record.relay.http.connection_records import ConnectionRecords
from mcpproxy.record.relay.http.dial import Dial, no_tls
from mcpproxy.record.relay.http.pair import CHUNK_BYTES, Pair
from mcpproxy.record.relay.http.reply import ESTABLISHED, reply
from mcpproxy.record.relay.http.request_head import LIMIT_BYTES
from mcpproxy.record.relay.http.request_reader import RequestReader
from mcpproxy.record.relay.http.rewrite import Rewriter, may_name_server
from mcpproxy.record.relay.http.socket import TunnelSocket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from mcpproxy.base.upstream.http_proxy import HttpProxy
    from mcpproxy.record.relay.http.dial import Sock
    from mcpproxy.record.relay.http.proxy_interface import ProxyInterface, TunnelGate
    from mcpproxy.record.relay.http.request_head import Refusal
    from mcpproxy.record.relay.http.route import Route

LONGEST_BYTES: Final = CHUNK_BYTES + LIMIT_BYTES
"""The longest payload of a journal record: a chunk and the beginning of a head that waited for it."""

LINGER_S: Final = 5.0
"""How long a client may take to read an answer of the proxy. Closing at once could discard the answer."""

_LONG_NS: Final = 500_000_000
"""Connecting to upstream is noted if it takes this long or longer: the server gets the request that much
later."""

# How the client's next bytes are treated.
_HTTP: Final = 0
_OPAQUE: Final = 1  # not HTTP any more: forwarded unchanged
_NOT_FORWARDED: Final = 2  # recorded only, because the proxy has answered or refused a request


class Tunnel(Pair):
    """One client connection with its upstream connection; see the top of this file.

    ``now`` is a time in ns, from ``journals.now_ns``.
    """

    __slots__ = ("_gate", "_is_first_answer", "_opened_ns", "_out", "_rewriter", "_stage", "_upgrade")

    def __init__(self, proxy: ProxyInterface, sock: Sock, peer: str) -> None:
        client = TunnelSocket(proxy.loop, sock, self._on_client)
        requests = RequestReader(proxy.router, self._on_request)
        super().__init__(proxy, client, ConnectionRecords(proxy, peer, requests), requests)
        self._out = b""  # the bytes to send as soon as upstream is connected
        self._opened_ns = 0  # when these bytes came
        self._stage = _HTTP
        self._upgrade: UpgradeResponse | None = None  # reads the answer to an upgrade
        self._rewriter: Rewriter | None = None
        self._is_first_answer = False  # upstream is connected and has sent nothing yet
        self._gate: TunnelGate | None = None if proxy.gate is None else proxy.gate.tunnel_gate(self)

    # From the client.

    def _on_client(self, events: int) -> None:
        data = self._read(self.client, events)
        if data:
            self._take_client(data, journals.now_ns())
        elif data is not None:
            self._on_client_end(journals.now_ns())

    def _take_client(self, data: bytes, now: int) -> None:
        """Forward, hold or only record bytes of the client, depending on the stage."""
        if self._stage == _HTTP:
            if self._gate is None:
                self.forward(data, now)
            else:
                self._gate.take_client(data, now)
        elif self._stage == _OPAQUE:
            self._send_up(data, data, now)
        else:
            self.records.add(journals.CLIENT, now, data)

    def forward(self, data: bytes, now: int, *, is_recorded: bool = False) -> None:
        """Give ``data`` to the request reader, and forward the bytes that it releases or refuse the request.

        With ``is_recorded``, the gate records the bytes that are released (in its ``on_request``).
        """
        out, taken, refusal = self._requests.take(data, now)
        if taken:
            self._forward_up(out, b"" if is_recorded and out else taken, now)
        if refusal is not None:
            self.refuse(refusal, now)

    def _forward_up(self, out: list[bytes], data: bytes, now: int) -> None:
        """Forward ``out`` instead of ``data``, which the client sent. ``out`` may be empty."""
        if not out:
            self.records.add(journals.CLIENT, now, data)
        elif self._upstream is None:
            self._open_upstream(b"".join(out), data, now)
        else:
            self._send_up(b"".join(out), data, now)

    def _on_request(self, route: Route, changes_server: bool, is_pipelined: bool, now: int) -> None:
        """Prepare for a request that is about to be forwarded."""
        if changes_server:
            self._leave_upstream(now)
        if route.wants_upgrade:
            self._upgrade = UpgradeResponse()
        if route.note:
            self.records.note("rewrote-head", route.note, now)
        rewriting = self._proxy.rewriting
        if self._rewriter is not None and self._rewriter.reads_all:
            self._rewriter.expect(route)
        elif rewriting is not None and not route.wants_tunnel and (rewriting.is_full or route.wants_stream):
            if self._rewriter is None and not is_pipelined:
                self._rewriter = rewriting.rewriter(self._note_rewrite)
            if self._rewriter is not None:
                self._rewriter.expect(route)
        if self._gate is not None:
            self._gate.on_request(route, now)

    def _send_up(self, out: bytes, data: bytes, now: int) -> None:
        """Send ``out`` to upstream instead of ``data``, which the client sent."""
        upstream = self._upstream
        assert upstream is not None
        self.records.add(journals.CLIENT, now, data)
        try:
            is_sent = upstream.put(out)
        except OSError:
            self._on_broken(upstream)
            return
        self._requests.note_sent()
        if not is_sent:
            self.watch()

    def _on_client_end(self, now: int) -> None:
        if self._gate is not None:
            self._gate.take_client_end(now)
            if self.is_over:
                return
        self.client.ended = True
        self._forward_client_end(now)
        self.watch()
        self._close_if_done()

    def _forward_client_end(self, now: int) -> None:
        """Forward the client's end, after bytes that wait for an answer. Part of a head is only recorded."""
        requests = self._requests
        if requests.held:
            if requests.is_waiting:
                return
            self.records.add(journals.CLIENT, now, requests.held)
            requests.held = b""
        self.records.end(journals.CLIENT_EOF, now)
        if self._upstream is not None:
            self._upstream.finish()
        elif self._dial is None:
            self.client.finish()

    # From upstream.

    def _on_upstream(self, events: int) -> None:
        upstream = self._upstream
        assert upstream is not None
        data = self._read(upstream, events)
        if not data:
            if data is not None:
                self._on_upstream_end(upstream)
            return
        self._requests.upstream_reads += 1
        self.records.add(journals.SERVER, journals.now_ns(), data)
        self._send_down(self._rewrite(data))
        if self._upgrade is not None and (status := self._upgrade.feed(data)) is not None:
            self._upgrade = None
            self._resume(status == 101, journals.now_ns())

    def _on_held_upstream(self, events: int) -> None:
        """Give the gate the bytes that upstream has sent, unless they pass the gate unseen."""
        gate, upstream = self._gate, self._upstream
        assert gate is not None
        assert upstream is not None
        if gate.lets_upstream_pass(is_upgrade=self._upgrade is not None):
            self._on_upstream(events)
        elif (data := self._read(upstream, events)) is not None:
            self._requests.upstream_reads += bool(data)
            gate.take_upstream(data, journals.now_ns())

    def give_down(self, data: bytes) -> None:
        """Send bytes of upstream to the client."""
        self._send_down(self._rewrite(data))

    def end_upstream(self) -> None:
        """Forward the end of upstream, after the gate has given the bytes before it."""
        assert self._upstream is not None
        self._on_upstream_end(self._upstream)

    def finish(self, *, is_reset: bool) -> None:
        """Close both connections after the bytes that wait for the client are sent, or reset the client's."""
        if is_reset:
            self.client.abort()
        if self.client.rest is None or is_reset:
            self.close()
            return
        self._drop_upstream()
        self.client.finish()
        self.watch()
        self._close_if_done()

    def close(self) -> None:
        if self._gate is not None and not self.is_over:
            self._gate.close()
        super().close()

    def _rewrite(self, data: bytes) -> bytes:
        """Return the bytes that the client gets in place of ``data``, which upstream sent."""
        if self._is_first_answer:
            self._is_first_answer = False
            self._look_at_head(data)
        rewriter = self._rewriter
        if rewriter is None:
            return data
        out = rewriter.feed(data)
        if rewriter.is_done:
            self._rewriter = None
        return out

    def _look_at_head(self, data: bytes) -> None:
        """Decide by the first head on an upstream connection whether its answers have to be rewritten.

        They have to be if they may have fields that are not forwarded, or that name the server. Only at the
        first head is it certain, without counting bodies, that a head begins; looking at each answer would
        cost 1 to 2 µs. If the HTTP proxy in front of the server refuses (407), that is reported.
        """
        end = data.find(b"\r\n\r\n")
        route = self._requests.route
        if route is not None and route.upstream.proxy is not None and status_of(data) == 407:
            self._note_refusal(route.upstream.proxy)
        rewriting, head = self._proxy.rewriting, data[: end + 2]
        removes_hops = may_have_hops(head)
        may_name = rewriting is not None and (rewriting.has_moved or may_name_server(head))
        if end < 0 or not (removes_hops or may_name) or self._stage == _OPAQUE or route is None:
            return
        if not data.startswith(b"HTTP/1.") or self._requests.is_pipelined:
            return
        if self._rewriter is None:
            self._rewriter = Rewriter(
                rewriting, self._note_rewrite, removes_hops=removes_hops, reads_all=True
            )
            self._rewriter.expect(route)
        else:
            self._rewriter.read_all(removes_hops=removes_hops)

    def _note_refusal(self, proxy: HttpProxy) -> None:
        """Report that the HTTP proxy in front of the server wants credentials; the client gets its answer."""
        why = proxy.refusal(407)
        self.records.note("upstream-failed", why, journals.now_ns())
        self._proxy.on_upstream_failed(proxy.name, why)

    def _note_rewrite(self, what: str) -> None:
        self.records.note("rewrote-response", what, journals.now_ns())

    def _send_down(self, out: bytes) -> None:
        """Send ``out`` to the client. If the client is gone, the tunnel is over."""
        try:
            if not self.client.put(out):
                self.watch()
        except OSError:
            self._on_broken(self.client)

    def _on_upstream_end(self, upstream: TunnelSocket) -> None:
        if upstream.broken:  # it was reset; sending has shown that already
            self._on_reset(upstream)
            return
        held = b"" if self._rewriter is None else self._rewriter.end()
        self._rewriter = None
        self.records.end(journals.SERVER_EOF, journals.now_ns())
        upstream.ended = True
        if held:
            self._send_down(held)
        self.client.finish()
        if self._stage == _NOT_FORWARDED:
            self._proxy.timers.start(LINGER_S, self.close)
        while self._requests.is_waiting and not self.is_over:
            self._upgrade = None
            self._resume(False, journals.now_ns())
        self.watch()
        self._close_if_done()

    def _on_read_failed(self, end_socket: TunnelSocket, error: OSError) -> None:
        """Answer in the place of a server that has ended TLS, because only the proxy sees the reason.

        In TLS 1.3 the server refuses a client after the client's handshake is complete. If an answer may be
        under way, and after a reset, which any client would see, the connection is reset. When the client has
        ended or has its answer, nothing was refused: OpenSSL 3 answers an end without ``close_notify``, as
        ours, with the alert decode error.
        """
        tls = self._proxy.dialer.tls
        is_over = self.client.ended or (self._stage == _HTTP and not self._requests.is_unanswered)
        is_refusal = end_socket is self._upstream and not is_over
        if is_refusal and tls is not None and (reason := tls.failure(error)):
            now = journals.now_ns()
            why = no_tls(self.records.upstream, reason)
            self.records.note("upstream-failed", why, now)
            # Reported under another name than the address, because the address itself was reached.
            self._proxy.on_upstream_failed(f"TLS with {self.records.upstream}", why)
            if self._stage == _HTTP:
                self._answer_client(502, why, now, has_body=self._requests.wants_body)
                return
        super()._on_read_failed(end_socket, error)

    def _resume(self, is_opaque: bool, now: int) -> None:
        """Continue with the client's bytes that were held until an answer.

        ``is_opaque``: the answer has shown that they are not HTTP any more.
        """
        held = self._requests.resume()
        if is_opaque:
            self.records.add(journals.OPAQUE, now)
            self._stage = _OPAQUE
            self._rewriter = None
        if held:
            self._take_client(held, now)
            if self.client.ended:
                self._forward_client_end(now)
        self.watch()

    # The upstream connection.

    def _open_upstream(self, out: bytes, data: bytes, now: int) -> None:
        """Connect to the server of the last request; ``out`` and ``data`` as for ``_send_up``."""
        route = self._requests.route
        assert route is not None
        self.records.add(journals.CLIENT, now, data)
        self._out, self._opened_ns = out, now
        self._dial = Dial(self._proxy.dialer, route.upstream, self._on_dialed, self.abandon)
        self._dial.start()
        self.watch()

    def _use_upstream(self, sock: Sock) -> TunnelSocket:
        """Use the new upstream connection, and send the bytes that waited for it."""
        handler = self._on_upstream if self._gate is None else self._on_held_upstream
        upstream = self._upstream = TunnelSocket(self._proxy.loop, sock, handler)
        self._proxy.on_upstream_reached(self.records.upstream)
        self._requests.note_sent()
        self._is_first_answer = True
        out, self._out = self._out, b""
        try:
            upstream.put(out)
        except OSError:  # if the connection is broken, reading will show that
            upstream.rest = memoryview(out)
        return upstream

    def _on_dialed(self) -> None:
        dial, self._dial = self._dial, None
        assert dial is not None
        now = journals.now_ns()
        if dial.failure is not None:
            status, why = dial.failure
            self.records.note("upstream-failed", why, now)
            self._proxy.on_upstream_failed(self.records.upstream, why)
            self._answer_client(status, why, now, has_body=self._requests.wants_body)
            return
        assert dial.sock is not None
        if (took_ns := now - self._opened_ns) >= _LONG_NS:
            # The server had less time to answer than the client has waited.
            why = f"connecting to {self.records.upstream} took {took_ns / 1e9:.1f} s"
            self.records.note("sent-late", why, now)
        upstream = self._use_upstream(dial.sock)
        if self.client.ended or self._stage == _NOT_FORWARDED:
            upstream.finish()
        route = self._requests.route
        if route is not None and route.wants_tunnel:
            self._send_own(ESTABLISHED, now)
            if self.is_over:
                return
            self._resume(True, now)
        self.watch()

    def _leave_upstream(self, now: int) -> None:
        """Close the connection to one server, because the next request is for another server.

        The server has answered all requests. In the journal, the next request begins a new connection.
        """
        self.records.close(now)
        self._drop_upstream()

    def _drop_upstream(self) -> None:
        if self._gate is not None and self._upstream is not None:
            self._gate.drop_upstream()
        self._rewriter = self._upgrade = None
        super()._drop_upstream()

    # Answers of the proxy itself.

    def refuse(self, refusal: Refusal, now: int) -> None:
        """Forward no more requests. Answer the client, unless it could take the answer for one of the
        server."""
        if self.is_over or self._stage == _NOT_FORWARDED:
            return
        self.records.note("refused", refusal.why, now)
        is_free = self.client.rest is None and not self.client.finishing
        if is_free and self._requests.may_be_answered:
            self._answer_client(refusal.status, refusal.why, now, refusal.has_body, refusal.response)
            return
        self._stage = _NOT_FORWARDED
        if self._upstream is not None:
            self._upstream.finish()
        self.watch()
        self._close_if_done()

    def _answer_client(self, status: int, why: str, now: int, has_body: bool, response: bytes = b"") -> None:
        """Answer in upstream's place, with ``response`` if it is given; then end the connection."""
        self._drop_upstream()
        self._stage = _NOT_FORWARDED
        self._send_own(response or reply(status, why, has_body=has_body), now)
        if self.is_over:
            return
        self.client.finish()
        self._proxy.timers.start(LINGER_S, self.close)
        self._resume(False, now)  # the held bytes are only recorded
        self._close_if_done()

    def _send_own(self, out: bytes, now: int) -> None:
        """Send bytes of the proxy itself to the client."""
        self.records.add(journals.OWN, now, out)
        self._send_down(out)
