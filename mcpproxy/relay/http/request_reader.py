"""What the client of a tunnel sends, read as far as it must be: heads found and rewritten, bodies counted.

No socket is touched here. The beginning of a head stays here until the head is whole, and what follows a
request that may end HTTP stays until that is known.
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
    """What may go on: ``out`` for ``data``, which is what the client sent; there may be nothing to send on.

    With a ``refusal`` nothing goes on after it; ``has_body`` is false if it answers a HEAD.
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
    """The requests of one connection, and how often upstream has spoken between them.

    Args:
        router: finds where each goes.
        begins: told of each before it goes on: its route, whether it goes to another server than the one
            before, whether it is pipelined (sent before the one in front of it was answered), and when.
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
        self.held = b""  # what did not go on yet
        self.route: Route | None = None  # of the last request
        self.waits = False  # for the answer to that, which may end HTTP
        self._body: BodyCounter | None = None  # of the request that is passing
        self._is_pipelined = False
        # How often upstream has spoken: ever, up to our last bytes for it, up to the last head among them.
        self.answers = self._answers_at_bytes = self._answers_at_head = 0

    def take(self, data: bytes, at_ns: int) -> Forwardable:
        """Find the heads in what the client sent at ``at_ns``; what may go on now."""
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
                    break  # what these bytes are depends on the answer
                elif buffer.startswith(b"\r\n", at):
                    at += 2  # an old client's, behind a body (RFC 9112, section 2.2)
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
        """A request begins. ``is_behind_another``: it came together with the end of the one before it."""
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
        """Bytes went to upstream."""
        self._answers_at_bytes = self.answers

    def resume(self) -> bytes:
        """It is known what follows a request that might have ended HTTP; the bytes that waited for that."""
        self.waits = False
        held, self.held = self.held, b""
        return held

    @property
    def is_full(self) -> bool:
        """Whether so much is held that no more is to be read."""
        return len(self.held) >= LIMIT_BYTES

    @property
    def may_be_answered(self) -> bool:
        """Whether an answer of ours, now, could not be taken for somebody else's, nor stand within one."""
        if self.route is None:
            return True
        if self._body is None:
            return self.answers != self._answers_at_bytes
        return not self._is_pipelined and self.answers == self._answers_at_head

    @property
    def wants_body(self) -> bool:
        """Whether an answer to the last request may have a body."""
        return self.route is None or self.route.request.method != b"HEAD"
