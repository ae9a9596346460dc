"""Read the bytes that the client of a tunnel sends: find and rewrite heads, count bodies.

A tunnel is one client connection with its connection to the server. This module does no I/O. The beginning
of a head is held until the head is complete. After a request that may end HTTP (CONNECT, an upgrade), the
following bytes are held until the answer shows whether they are HTTP.
"""

from __future__ import annotations

from mcpproxy.record.relay.http.body_end import body_counter
from mcpproxy.record.relay.http.request_head import LIMIT_BYTES, Refusal, check_beginning

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpproxy.record.relay.http.body_end import BodyCounter
    from mcpproxy.record.relay.http.route import Route, Router

    OnRequest = Callable[[Route, bool, bool, int], None]


class RequestReader:
    """Reads the requests of one connection.

    It notes how often upstream (the server) had sent bytes when the last head came, and when the proxy last
    sent bytes to upstream: that shows whether an answer may be under way.

    Args:
        router: finds the route of each request.
        on_request: called for each request before it is forwarded, with its route, whether it goes to another
            server than the previous request, whether it is pipelined (sent before the previous request was
            answered), and the time.
    """

    __slots__ = (
        "_body",
        "_is_pipelined",
        "_on_request",
        "_reads_at_last_head",
        "_reads_at_last_send",
        "_router",
        "held",
        "is_waiting",
        "route",
        "upstream_reads",
    )

    def __init__(self, router: Router, on_request: OnRequest) -> None:
        self._router = router
        self._on_request = on_request
        self.held = b""  # bytes that are not forwarded yet
        self.route: Route | None = None  # the route of the last request
        self.is_waiting = False  # the last request may end HTTP and has no answer yet
        self._body: BodyCounter | None = None  # counts the body that is being forwarded
        self._is_pipelined = False
        self.upstream_reads = 0  # how often upstream has sent bytes; counted by the tunnel
        self._reads_at_last_send = 0  # ``upstream_reads`` when the proxy last sent bytes
        self._reads_at_last_head = 0  # ``upstream_reads`` when the last head came

    def take(self, data: bytes, at_ns: int) -> tuple[list[bytes], bytes, Refusal | None]:
        """Find the heads in the bytes that the client sent at ``at_ns``.

        Return the bytes to forward now, which may be none; the client's bytes that they replace, because
        heads are rewritten; and a refusal, after which nothing more is forwarded, or ``None``. With a
        refusal, the client's bytes are all that came and were held.
        """
        held_before = self.held
        buffer = held_before + data if held_before else data
        size = len(buffer)
        position = 0
        out: list[bytes] = []
        try:
            while position < size:
                body = self._body
                if body is not None:
                    stop = body.feed(buffer, position)
                    out.append(buffer[position:stop])
                    position = stop
                    if body.is_over:
                        self._body = None
                elif self.is_waiting:
                    break  # only the answer shows whether these bytes are HTTP
                elif buffer.startswith(b"\r\n", position):
                    position += 2  # old clients send a line end after a body (RFC 9112, section 2.2)
                else:
                    stop = buffer.find(b"\r\n\r\n", max(position, len(held_before) - 3)) + 4
                    if stop < 4:
                        check_beginning(buffer[position:])
                        break
                    route = self._router.route(buffer[position:stop])
                    self._begin_request(route, bool(out), at_ns)
                    out.append(route.head)
                    position = stop + route.length  # before ``stop`` if the body is in chunked coding
                    if stop <= position <= size:  # the whole body is here
                        out.append(buffer[stop:position])
                    else:
                        position = stop
                        self._body = body_counter(route.length)
        except Refusal as refusal:
            self.held = b""
            refusal.has_body = not buffer.startswith(b"HEAD ", position)
            return out, buffer, refusal
        self.held = buffer[position:]
        return out, buffer[:position], None

    def _begin_request(self, route: Route, is_behind_another: bool, at_ns: int) -> None:
        """Begin a request. ``is_behind_another``: its head came in one chunk with bytes of the request
        before.

        Raises:
            Refusal: the request must wait for the answers to earlier requests, but was pipelined.
        """
        previous = self.route
        is_pipelined = previous is not None and (
            is_behind_another or self.upstream_reads == self._reads_at_last_send
        )
        if is_pipelined and route.is_last:
            raise Refusal(400, "HTTP may end here, but the requests before are not answered yet")
        is_elsewhere = previous is not None and route.needs_new_connection(previous)
        if is_elsewhere and is_pipelined:
            raise Refusal(400, "this goes to another server, but the requests before are not answered yet")
        self.route = route
        self._is_pipelined = is_pipelined
        self._reads_at_last_head = self.upstream_reads
        self.is_waiting = route.is_last
        self._on_request(route, is_elsewhere, is_pipelined, at_ns)

    def note_sent(self) -> None:
        """Note that bytes were sent to upstream."""
        self._reads_at_last_send = self.upstream_reads

    def resume(self) -> bytes:
        """Stop waiting, because an answer has shown whether HTTP ends. Return the bytes that were held."""
        self.is_waiting = False
        held, self.held = self.held, b""
        return held

    @property
    def is_full(self) -> bool:
        """Whether so many bytes are held that the client must not be read."""
        return len(self.held) >= LIMIT_BYTES

    @property
    def may_be_answered(self) -> bool:
        """Whether the client would take an answer of the proxy for the answer to the request it sent last.

        Otherwise the client could take it for the answer to an earlier request, or for a part of an answer of
        the server.
        """
        if self.route is None:
            return True
        if self._body is None:  # every request so far was forwarded completely, so the answer is to a new one
            return self.upstream_reads != self._reads_at_last_send
        return self.is_unanswered

    @property
    def is_pipelined(self) -> bool:
        """Whether the last request was sent before the one before it was answered."""
        return self._is_pipelined

    @property
    def is_unanswered(self) -> bool:
        """Whether the last request was not pipelined, and upstream has sent nothing since its head came."""
        return not self._is_pipelined and self.upstream_reads == self._reads_at_last_head

    @property
    def wants_body(self) -> bool:
        """Whether an answer to the last request may have a body."""
        return self.route is None or self.route.request.method != b"HEAD"
