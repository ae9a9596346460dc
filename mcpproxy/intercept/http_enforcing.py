"""The HTTP proxy with enforced rules: each POST is held until it is judged.

This module is imported only with ``--enforce``. A POST with a JSON body is held until it is complete, and an
``Enforcer`` judges it. If the POST breaks an enforced rule, the proxy answers it with a JSON-RPC error and
closes the connection, and the server never sees the POST. Everything else is forwarded unchanged. The answer
has the HTTP status that a server would send: 200 in a revision with sessions, 400 in a revision without.

The proxy copies all traffic into the journal, from which the recorder, another process, makes the trace. The
``Enforcer`` has to see the whole session. So every journal record (a kind, a time and a payload) is also
passed to an ``HttpAssembly`` here, which turns the records into events, as the recorder does. The bytes of a
held request are passed to the ``HttpAssembly`` before they are journaled.

*Limits.* A body over ``LIMIT_BYTES``, or one whose client waits for ``100 Continue``, is forwarded without
being judged, and a note in the trace says so. If the ``Enforcer`` raises, that is a fault of ours: from then
on everything is forwarded, and stderr says so once."""

from __future__ import annotations

import json
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from mcpproxy.recorder.http.assembly import HttpAssembly
from mcpproxy.relay import journal as journals
from mcpproxy.relay.http.body_end import body_counter
from mcpproxy.relay.http.proxy import Proxy, Settings
from mcpproxy.relay.http.reply import reply
from mcpproxy.relay.http.request_head import LIMIT_BYTES as HEAD_BYTES
from mcpproxy.relay.http.request_head import Refusal, check_beginning
from mcpproxy.relay.http.tunnel import Tunnel
from mcpproxy.session.frame import CLIENT, Frame
from mcpproxy.trace.records import Encoded

if TYPE_CHECKING:
    import socket

    from mcpproxy.intercept.policies import Refused
    from mcpproxy.relay.http.body_end import BodyCounter
    from mcpproxy.relay.http.dial import Sock
    from mcpproxy.relay.http.route import Route
    from mcpproxy.relay.journal import Journal
    from mcpproxy.session.frame import Event

LIMIT_BYTES: Final = 16 << 20
"""The longest request body that is held."""


class JudgesRequests(Protocol):
    """What judges the requests of clients, and sees everything else."""

    def refusal(self, frame: Frame) -> Refused | None:
        """Return the answer to a request that must not be forwarded; ``None`` if it may be."""
        ...

    def observe(self, event: Event, *, leaves: bool = True) -> None:
        """Take note of another event."""
        ...


class EnforcingProxy(Proxy):
    """A proxy that asks ``enforcer`` about the requests that clients POST to the path ``endpoint``."""

    def __init__(
        self,
        settings: Settings,
        listener: socket.socket,
        journal: Journal | None,
        enforcer: JudgesRequests,
        endpoint: str,
    ) -> None:
        super().__init__(settings, listener, journal)
        self.tunnel = EnforcingTunnel
        self._enforcer: JudgesRequests | None = enforcer
        options = {"endpoint": endpoint, "mode": "reverse", "keep_credentials": True}
        self._assembly = HttpAssembly(json.dumps(options).encode())
        self._unjournaled_bytes: dict[int, int] = {}
        """Connection -> how many bytes of its client were judged and are not journaled yet."""
        # The proxy and its tunnels call this function to record. Replace it, so that each record is judged as
        # well.
        self._journal_record = self.record
        self.record = self._record
        self._unjudged: deque[tuple[int, int, bytes, int]] = deque()
        """Kind, time, payload and connection of what was recorded and is judged after it is forwarded."""

    def judge(self, data: bytes, at_ns: int, number: int) -> Refused | None:
        """Judge bytes of the client of connection ``number``; return our answer if they must be refused."""
        self.judge_recorded()
        self._unjournaled_bytes[number] = self._unjournaled_bytes.get(number, 0) + len(data)
        return self._judge_record(journals.CLIENT, at_ns, data, number)

    def judge_recorded(self) -> None:
        """Judge what was recorded."""
        while self._unjudged:
            self._judge_record(*self._unjudged.popleft())

    def _journal_turn(self) -> None:
        self.judge_recorded()
        super()._journal_turn()

    def _record(self, kind: int, at_ns: int, payload: bytes, number: int) -> None:
        """Journal a record, and judge later those of its bytes that were not judged before."""
        self._journal_record(kind, at_ns, payload, number)
        if kind == journals.CLIENT and (judged_bytes := self._unjournaled_bytes.get(number)):
            self._unjournaled_bytes[number] = max(0, judged_bytes - len(payload))
            payload = payload[judged_bytes:]
            if not payload:
                return
        elif kind == journals.CLIENT_EOF:
            self._unjournaled_bytes.pop(number, None)
        if number:  # 0 is the number of a record that belongs to no connection
            self._unjudged.append((kind, at_ns, payload, number))

    def _judge_record(self, kind: int, at_ns: int, payload: bytes, number: int) -> Refused | None:
        """Judge the events of a record; return our answer if they must be refused."""
        verdict = None
        if self._enforcer is not None:
            try:
                for event in self._assembly.take(kind, payload, at_ns, number):
                    if isinstance(event, Frame) and event.sender == CLIENT and kind == journals.CLIENT:
                        verdict = self._enforcer.refusal(event) or verdict
                    elif not isinstance(event, Encoded):
                        self._enforcer.observe(event)
            except Exception as fault:
                self._enforcer = verdict = None
                error = f"{type(fault).__name__}: {fault}"
                self.stderr_log.say(f"a fault of mcpproxy, nothing is refused any more: {error}")
        return verdict


class EnforcingTunnel(Tunnel):
    """A tunnel that holds each request of its client until it is judged.

    In its methods, ``now`` is the present time in ns.
    """

    __slots__ = (
        "_answer_body",
        "_body_counter",
        "_forwards_all",
        "_head",
        "_judging_proxy",
        "_request",
        "_request_bytes",
    )

    def __init__(self, proxy: Proxy, sock: Sock, peer: str) -> None:
        assert isinstance(proxy, EnforcingProxy)
        super().__init__(proxy, sock, peer)
        self._judging_proxy = proxy
        self._forwards_all = False  # whether all later bytes of the client are forwarded without judgement
        self._head = b""  # the beginning of a request head that is not complete yet
        self._body_counter: BodyCounter | None = None  # of the current request, held or not
        self._request: list[bytes] | None = None  # the pieces of the current request, if it is held
        self._request_bytes = 0  # the length of these pieces
        self._answer_body = b""  # the JSON-RPC error that the next refusal sends

    def _take(self, data: bytes, now: int) -> None:
        """Process bytes of the client: hold a request until it is complete, forward other bytes at once."""
        if self._forwards_all:
            super()._take(data, now)
            return
        buffer, self._head = self._head + data, b""
        position = 0
        passing: list[bytes] = []  # the pieces that may be forwarded
        judged_pieces = 0  # how many pieces of ``passing`` were judged
        try:
            while position < len(buffer):
                if self._body_counter is None:
                    end = self._find_head(buffer, position, now)
                    if end == position:
                        self._head = buffer[position:]
                        break
                else:
                    end = self._body_counter.feed(buffer, position)
                piece, position = buffer[position:end], end
                if self._request is None:
                    passing.append(piece)
                else:
                    self._request.append(piece)
                    self._request_bytes += len(piece)
                    if self._request_bytes > LIMIT_BYTES + HEAD_BYTES:
                        passing += self._stop_holding("a body over 16 MiB", now)
                if self._body_counter is not None and self._body_counter.is_over:
                    self._body_counter = None
                if self._body_counter is None and self._request is not None:
                    request, self._request = b"".join(self._request), None
                    earlier_bytes = b"".join(passing[judged_pieces:])
                    judged_pieces = len(passing) + 1  # with the request, which is appended if it may pass
                    self._records.begin(now)
                    if earlier_bytes:
                        self._judging_proxy.judge(earlier_bytes, now, self._records.number)
                    verdict = self._judging_proxy.judge(request, now, self._records.number)
                    self._on_judged()
                    if verdict is not None:
                        self._refuse_request(passing, request, buffer[position:], verdict, now)
                        return
                    passing.append(request)
        except Refusal as refusal:
            rest = b"".join((*(self._request or ()), buffer[position:]))
            self._request = None
            self._on_unreadable(refusal, passing, rest, now)
            return
        if passing:
            super()._take(b"".join(passing), now)

    def _on_judged(self) -> None:
        """Called when a request was judged, before it may pass."""

    def _on_unreadable(self, refusal: Refusal, passing: list[bytes], rest: bytes, now: int) -> None:
        """Forward ``passing``. ``rest`` begins with a request that must not be forwarded."""
        del refusal  # ``Tunnel`` refuses this head when it gets the bytes
        self._forwards_all = True
        super()._take(b"".join((*passing, rest)), now)

    def _find_head(self, buffer: bytes, position: int, now: int) -> int:
        """Return where the head that begins at ``position`` ends; ``position`` if the head is incomplete.

        A request with a JSON body is held from here on.
        """
        if buffer.startswith(b"\r\n", position):
            return position + 2
        end = buffer.find(b"\r\n\r\n", position) + 4
        if end < 4:
            check_beginning(buffer[position:])
            return position
        route = self._proxy.router.route(buffer[position:end])
        if route.is_last:  # a CONNECT or an upgrade: the bytes after it need not be HTTP
            self._forwards_all = True
            return len(buffer)
        self._body_counter = body_counter(route.length)
        if self._body_counter is not None and route.request.method == b"POST" and is_json(route):
            if route.request.value(b"expect") is not None:
                self._records.note("unjudged", "a body that waits to be asked for", now)
            elif route.length > LIMIT_BYTES:
                self._records.note("unjudged", "a body over 16 MiB", now)
            else:
                self._request, self._request_bytes = [], 0
        return end

    def _stop_holding(self, why: str, now: int) -> list[bytes]:
        """Return the pieces held so far, to be forwarded; ``why`` goes into a note in the trace."""
        self._records.note("unjudged", why, now)
        held, self._request = self._request or [], None
        return held

    def _refuse_request(
        self, passing: list[bytes], request: bytes, after: bytes, verdict: Refused, now: int
    ) -> None:
        """Forward ``passing``, the bytes before ``request``, and answer ``request``.

        ``after`` are the bytes that follow the request. They are recorded and not forwarded.
        """
        if passing:
            super()._take(b"".join(passing), now)
        if self._is_over:
            return
        self._answer_body = verdict.answer
        self._records.add(journals.CLIENT, now, request + after)
        self._refuse(Refusal(verdict.status, f"{verdict.by}: {verdict.why}"), now)

    def _reply(self, status: int, why: str, *, has_body: bool) -> bytes:
        body, self._answer_body = self._answer_body, b""
        return reply(status, why, has_body=has_body, body=body)

    def _on_client_end(self, now: int) -> None:
        # A request that ends early cannot be judged, so its bytes are forwarded.
        held = b"".join(self._request or ()) + self._head
        self._request, self._head, self._forwards_all = None, b"", True
        if held:
            super()._take(held, now)
        super()._on_client_end(now)


def is_json(route: Route) -> bool:
    media_type = (route.request.value(b"content-type") or b"").partition(b";")[0].strip(b" \t").lower()
    return media_type in (b"", b"application/json")
