"""Read what the client of a tunnel sends: find and rewrite heads, count bodies.

This module does no I/O. The beginning of a head is held until the head is complete. After a request that may
end HTTP (CONNECT, an upgrade), the following bytes are held until the answer decides.
"""

from __future__ import annotations

from mcpproxy.relay.http.body_end import body_counter
from mcpproxy.relay.http.request_head import LIMIT_BYTES, Refusal, check_beginning

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpproxy.relay.http.body_end import BodyCounter
    from mcpproxy.relay.http.route import Route, Router

    OnRequest = Callable[[Route, bool, bool, int], None]


class Forwardable:
    """Bytes that may be forwarded: ``out`` instead of ``data``, which the client sent. ``out`` may be empty.

    After a ``refusal`` nothing more is forwarded; ``has_body`` is false if it answers a HEAD.
    """

    __slots__ = ("data", "has_body", "out", "refusal")

    def __init__(
        self, out: list[bytes], data: bytes, refusal: Refusal | None = None, has_body: bool = True
    ) -> None:
        self.out = out
        self.data = data
        self.refusal = refusal
        self.has_body = has_body


class RequestReader:
    """Reads the requests of one connection, and counts how often upstream has sent something between them.

    Args:
        router: finds the route of each request.
        begins: called for each request before it is forwarded, with its route, whether it goes to another
            server than the request before, whether it is pipelined (sent before that one was answered), and
            the time.
    """

    __slots__ = (
        "_answers_at_bytes",
        "_answers_at_head",
        "_begins",
        "_body",
        "_is_pipelined",
        "_router",
        "answers",
        "held",
        "route",
        "waits",
    )

    def __init__(self, router: Router, begins: OnRequest) -> None:
        self._router = router
        self._begins = begins
        self.held = b""  # bytes that were not forwarded yet
        self.route: Route | None = None  # of the last request
        self.waits = False  # for the answer to the last request, which may end HTTP
        self._body: BodyCounter | None = None  # of the request that is being forwarded
        self._is_pipelined = False
        # How often upstream has sent something: in all, before our last bytes for it, before the last head.
        self.answers = self._answers_at_bytes = self._answers_at_head = 0

    def take(self, data: bytes, at_ns: int) -> Forwardable:
        """Find the heads in what the client sent at ``at_ns``; returns what may be forwarded now."""
        held = self.held
        buffer = held + data if held else data
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
                elif self.waits:
                    break  # the answer decides what these bytes are
                elif buffer.startswith(b"\r\n", at):
                    at += 2  # old clients send it after a body (RFC 9112, section 2.2)
                else:
                    stop = buffer.find(b"\r\n\r\n", max(at, len(held) - 3)) + 4
                    if stop < 4:
                        check_beginning(buffer[at:])
                        break
                    route = self._router.route(buffer[at:stop])
                    self._begin(route, bool(out), at_ns)
                    out.append(route.head)
                    at = stop
        except Refusal as refusal:
            self.held = b""
            return Forwardable(out, buffer, refusal, has_body=not buffer.startswith(b"HEAD ", at))
        self.held = buffer[at:]
        return Forwardable(out, buffer[:at])

    def _begin(self, route: Route, is_behind_another: bool, at_ns: int) -> None:
        """Begin a request. ``is_behind_another``: it came in one chunk with the end of the request before."""
        last = self.route
        is_pipelined = last is not None and (is_behind_another or self.answers == self._answers_at_bytes)
        if is_pipelined and route.is_last:
            raise Refusal(400, "HTTP may end here, but the requests before are not answered yet")
        leaves = last is not None and route.needs_new_connection(last)
        if leaves and is_pipelined:
            raise Refusal(400, "this goes to another server, but the requests before are not answered yet")
        self.route = route
        self._is_pipelined = is_pipelined
        self._answers_at_head = self.answers
        self._body = body_counter(route.length)
        self.waits = route.is_last
        self._begins(route, leaves, is_pipelined, at_ns)

    def sent(self) -> None:
        """Note that bytes were sent to upstream."""
        self._answers_at_bytes = self.answers

    def resume(self) -> bytes:
        """Stop waiting, because an answer has decided whether HTTP ends; returns the bytes that were held."""
        self.waits = False
        held, self.held = self.held, b""
        return held

    @property
    def is_full(self) -> bool:
        """Whether so much is held that the client must not be read."""
        return len(self.held) >= LIMIT_BYTES

    @property
    def may_be_answered(self) -> bool:
        """Whether the client would read an answer of ours as the answer to its last request.

        Otherwise it could be read as the answer to an earlier request, or as part of an answer of the server.
        """
        if self.route is None:
            return True
        if self._body is None:
            return self.answers != self._answers_at_bytes
        return not self._is_pipelined and self.answers == self._answers_at_head

    @property
    def wants_body(self) -> bool:
        """Whether an answer to the last request may have a body."""
        return self.route is None or self.route.request.method != b"HEAD"
