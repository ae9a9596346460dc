"""Split the bytes of an HTTP client into requests that are held until they are complete, and bytes that pass.

A body over ``LIMIT_BYTES``, or a body whose client waits for ``100 Continue``, is forwarded without being
shown to a policy, and a note in the trace says so. If an addon fails closed, it is refused instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mcpproxy.gate.intercept.addons.closed_gate import LIMIT_BYTES
from mcpproxy.gate.intercept.addons.closed_gate_http import too_long
from mcpproxy.record.relay.http.body_end import body_counter
from mcpproxy.record.relay.http.request_head import LIMIT_BYTES as HEAD_BYTES
from mcpproxy.record.relay.http.request_head import Refusal, check_beginning

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpproxy.record.relay.http.body_end import BodyCounter
    from mcpproxy.record.relay.http.route import Route


class HeldRequest(NamedTuple):
    """A complete request, as the client sent it. ``after`` are the bytes that follow it."""

    raw: bytes
    route: Route
    after: bytes


class RequestHolder:
    """Holds the requests of one client until they are complete.

    It holds each POST whose body is JSON or has no media type, and with ``holds_all`` also each GET and
    DELETE without a body. ``route`` returns the route of a head. ``on_head`` is called with the route of each
    request; it raises a ``Refusal`` if the request must not pass, or returns whether the request is gated,
    that is, must not pass unseen. ``note`` records why a request is not held.
    """

    def __init__(
        self,
        route: Callable[[bytes], Route],
        on_head: Callable[[Route], bool],
        note: Callable[[str], None],
        *,
        holds_all: bool,
    ) -> None:
        self._route_of, self._on_head, self._note, self._holds_all = route, on_head, note, holds_all
        self.passes_all = False
        """Whether all later bytes pass."""
        self.is_gated = False
        """Whether the last request is gated."""
        self._head = b""  # the beginning of a head that is not complete yet
        self._body: BodyCounter | None = None  # of the current request, held or not
        self._held: list[bytes] | None = None  # the pieces of the current request, if it is held
        self._held_bytes = 0
        self._route: Route | None = None

    def take_held(self) -> bytes:
        """Return the held bytes of an incomplete request, and hold them no more."""
        held, self._held = b"".join(self._held or ()) + self._head, None
        self._head = b""
        return held

    @property
    def is_holding(self) -> bool:
        """Whether a part of a request is held."""
        return self._held is not None

    def feed(self, data: bytes, passing: list[bytes]) -> HeldRequest | None:
        """Append the bytes that pass to ``passing``, up to the first held request that is complete.

        Return this request; ``None`` if none is complete.

        Raises:
            Refusal: the bytes that ``take_held`` returns must not pass.
        """
        buffer, self._head = self._head + data, b""
        position = 0
        while position < len(buffer):
            try:
                end = self._begin_piece(buffer, position)
                if end == position:
                    self._head = buffer[position:]
                    return None
                piece = buffer[position:end]
                if self._held is None:
                    passing.append(piece)
                else:
                    self._hold_piece(piece, passing)
            except Refusal:
                self._head = buffer[position:]
                raise
            position = end
            if self._body is not None and self._body.is_over:
                self._body = None
            if self._body is None and self._held is not None:
                raw, self._held = b"".join(self._held), None
                assert self._route is not None
                return HeldRequest(raw, self._route, buffer[position:])
        return None

    def _begin_piece(self, buffer: bytes, position: int) -> int:
        """Read a head or a part of a body; return where it ends, or ``position`` if a head is incomplete."""
        if self._body is not None:
            return self._body.feed(buffer, position)
        if buffer.startswith(b"\r\n", position):
            return position + 2
        end = buffer.find(b"\r\n\r\n", position) + 4
        if end < 4:
            check_beginning(buffer[position:])
            return position
        route = self._route = self._route_of(buffer[position:end])
        self.is_gated = self._on_head(route)
        if route.is_last:  # a CONNECT or an upgrade: the bytes after it need not be HTTP
            self.passes_all = True
            return len(buffer)
        self._body = body_counter(route.length)
        if self._body is None:
            if self._holds_all and route.request.method in (b"GET", b"DELETE"):
                self._held, self._held_bytes = [], 0  # only so that policies see its head
        elif route.request.method == b"POST" and is_json(route):
            if route.request.value(b"expect") is not None:
                self._note("a body that waits to be asked for")
            elif route.length > LIMIT_BYTES:
                self._note("a body over 16 MiB")
            else:
                self._held, self._held_bytes = [], 0
        return end

    def _hold_piece(self, piece: bytes, passing: list[bytes]) -> None:
        held = self._held
        assert held is not None
        if self._held_bytes + len(piece) > LIMIT_BYTES + HEAD_BYTES:
            if self.is_gated:
                raise too_long()
            self._note("a body over 16 MiB")
            passing += (*held, piece)
            self._held = None
            return
        held.append(piece)
        self._held_bytes += len(piece)


def is_json(route: Route) -> bool:
    """Whether the head says that the body is JSON, or does not name its media type."""
    media_type = (route.request.value(b"content-type") or b"").partition(b";")[0].strip(b" \t").lower()
    return media_type in (b"", b"application/json")
