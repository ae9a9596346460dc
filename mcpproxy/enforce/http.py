"""The HTTP proxy with enforced rules: each POST is held until it is judged.

Imported only with ``--enforce``. A POST with a JSON body is held until it is complete. If it breaks an
enforced rule, it is answered here, the server never sees it, and the connection ends. Everything else is
forwarded as it came. The answer is what a server of the revision would send: 200 with a JSON-RPC error in a
session, 400 in a revision without sessions.

The ``Enforcer`` has to see the whole session. Every record that is journaled is therefore also passed to an
``HttpAssembly`` here, which turns the records into events, as another one does in the recorder. The bytes of
a held request are passed to it earlier, before they are journaled.

*Limits.* A body over ``LIMIT_BYTES``, or one whose client waits for ``100 Continue``, is forwarded without
being judged, and a note in the trace says so. After a *fault* of the ``Enforcer`` everything is
forwarded, and stderr says so once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from mcpproxy.recorder.http.assembly import HttpAssembly
from mcpproxy.relay import journal as journals
from mcpproxy.relay.http.body_end import body_counter
from mcpproxy.relay.http.proxy import Proxy, Settings
from mcpproxy.relay.http.reply import reply
from mcpproxy.relay.http.request_head import LIMIT_BYTES as HEAD_BYTES
from mcpproxy.relay.http.request_head import Refusal, check_beginning
from mcpproxy.relay.http.tunnel import LONGEST_BYTES, Tunnel
from mcpproxy.session.frame import CLIENT, Frame
from mcpproxy.trace.records import Encoded

if TYPE_CHECKING:
    import socket

    from mcpproxy.enforce.policy import Enforcer, RefusalResponse
    from mcpproxy.relay.http.body_end import BodyCounter
    from mcpproxy.relay.http.dial import Sock
    from mcpproxy.relay.http.route import Route
    from mcpproxy.relay.journal import Journal

LIMIT_BYTES: Final = 16 << 20
"""The longest body that is held."""


class EnforcingProxy(Proxy):
    """A proxy that asks ``enforcer`` about the requests that clients POST to the path ``endpoint``."""

    def __init__(
        self,
        settings: Settings,
        listener: socket.socket,
        journal: Journal | None,
        enforcer: Enforcer,
        endpoint: str,
    ) -> None:
        super().__init__(settings, listener, journal)
        self.tunnel = EnforcingTunnel
        self._enforcer: Enforcer | None = enforcer
        start = {"endpoint": endpoint, "mode": "reverse", "keep_credentials": True}
        self._assembly = HttpAssembly(json.dumps(start).encode())
        self._ahead: dict[int, int] = {}
        """Connection -> how many bytes of its client were judged and are not journaled yet."""
        # The proxy and its tunnels call these two functions; what they record is to be judged as well.
        self._append = self.record
        self.record = self._record
        self._store = self.keep_until_journaled
        self.keep_until_journaled = self._keep_until_journaled
        self._recorded: bytes | None = None
        """A payload that was journaled before it is forwarded, so that it is not journaled again."""

    def judge(self, data: bytes, at_ns: int, number: int) -> RefusalResponse | None:
        """Judge bytes of a client; returns our answer if they must not be forwarded."""
        self._ahead[number] = self._ahead.get(number, 0) + len(data)
        return self._judge_record(journals.CLIENT, at_ns, data, number)

    def _keep_until_journaled(self, kind: int, at_ns: int, payload: bytes, number: int) -> None:
        """Store what is about to be forwarded in the crash buffer, or journal it now if it is too long."""
        if len(payload) <= LONGEST_BYTES:
            self._store(kind, at_ns, payload, number)
            return
        for at in range(0, len(payload), LONGEST_BYTES):
            self._record(kind, at_ns, payload[at : at + LONGEST_BYTES], number)
        self._recorded = payload

    def _record(self, kind: int, at_ns: int, payload: bytes, number: int) -> None:
        if payload is self._recorded:
            self._recorded = None
            return
        self._append(kind, at_ns, payload, number)
        if kind == journals.CLIENT and (ahead := self._ahead.get(number)):
            self._ahead[number] = max(0, ahead - len(payload))
            payload = payload[ahead:]
            if not payload:
                return
        elif kind == journals.CLIENT_EOF:
            self._ahead.pop(number, None)
        if number:
            self._judge_record(kind, at_ns, payload, number)

    def _judge_record(self, kind: int, at_ns: int, payload: bytes, number: int) -> RefusalResponse | None:
        verdict = None
        if self._enforcer is not None:
            try:
                for event in self._assembly.take(kind, payload, at_ns, number):
                    if isinstance(event, Frame) and event.sender == CLIENT and kind == journals.CLIENT:
                        verdict = self._enforcer.judge(event) or verdict
                    elif not isinstance(event, Encoded):
                        self._enforcer.observe(event)
            except Exception as fault:
                self._enforcer = verdict = None
                error = f"{type(fault).__name__}: {fault}"
                self.stderr_log.say(f"a fault of mcpproxy, nothing is refused any more: {error}")
        return verdict


class EnforcingTunnel(Tunnel):
    """A tunnel that holds each request of its client until it is judged."""

    __slots__ = (
        "_answer_body",
        "_body_counter",
        "_head",
        "_is_open",
        "_judging_proxy",
        "_request",
        "_request_bytes",
    )

    def __init__(self, proxy: Proxy, sock: Sock, peer: str) -> None:
        assert isinstance(proxy, EnforcingProxy)
        super().__init__(proxy, sock, peer)
        self._judging_proxy = proxy
        self._is_open = False  # whether everything from here on is forwarded unjudged
        self._head = b""  # the beginning of a head
        self._body_counter: BodyCounter | None = None  # of the current request, held or not
        self._request: list[bytes] | None = None  # the pieces of the current request, if it is held
        self._request_bytes = 0
        self._answer_body = b""

    def _take(self, data: bytes, now: int) -> None:
        if self._is_open:
            super()._take(data, now)
            return
        buffer, self._head = self._head + data, b""
        at = 0
        passing: list[bytes] = []  # what may be forwarded
        judged_pieces = 0  # how many of these pieces were judged
        try:
            while at < len(buffer):
                if self._body_counter is None:
                    stop = self._find_head(buffer, at, now)
                    if stop == at:
                        self._head = buffer[at:]
                        break
                else:
                    stop = self._body_counter.feed(buffer, at)
                piece, at = buffer[at:stop], stop
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
                    before, judged_pieces = b"".join(passing[judged_pieces:]), len(passing) + 1
                    self._records.begin(now, self._upstream_address())
                    if before:
                        self._judging_proxy.judge(before, now, self._records.number)
                    verdict = self._judging_proxy.judge(request, now, self._records.number)
                    if verdict is not None:
                        self._refuse_request(passing, request, buffer[at:], verdict, now)
                        return
                    passing.append(request)
        except Refusal:  # the tunnel itself will refuse it
            self._is_open = True
            passing += [*(self._request or ()), buffer[at:]]
            self._request = None
        if passing:
            super()._take(b"".join(passing), now)

    def _find_head(self, buffer: bytes, at: int, now: int) -> int:
        """Return where the head that begins at ``at`` ends; ``at`` if it is incomplete."""
        if buffer.startswith(b"\r\n", at):
            return at + 2
        stop = buffer.find(b"\r\n\r\n", at) + 4
        if stop < 4:
            check_beginning(buffer[at:])
            return at
        route = self._proxy.router.route(buffer[at:stop])
        if route.is_last:
            self._is_open = True
            return len(buffer)
        self._body_counter = body_counter(route.length)
        if self._body_counter is not None and route.request.method == b"POST" and _is_json(route):
            if route.request.value(b"expect") is not None:
                self._note("unjudged", "a body that waits to be asked for", now)
            elif route.length > LIMIT_BYTES:
                self._note("unjudged", "a body over 16 MiB", now)
            else:
                self._request, self._request_bytes = [], 0
        return stop

    def _stop_holding(self, why: str, now: int) -> list[bytes]:
        self._note("unjudged", why, now)
        held, self._request = self._request or [], None
        return held

    def _refuse_request(
        self, passing: list[bytes], request: bytes, rest: bytes, verdict: RefusalResponse, now: int
    ) -> None:
        """Answer ``request`` here. What came before it is forwarded, what comes after it is not."""
        if passing:
            super()._take(b"".join(passing), now)
        if self._is_over:
            return
        self._answer_body = verdict.body
        self._record(journals.CLIENT, now, request + rest)
        status = 400 if verdict.is_stateless else 200
        self._refuse(Refusal(status, f"{', '.join(verdict.rules)}: {verdict.why}"), now, has_body=True)

    def _reply(self, status: int, why: str, *, has_body: bool) -> bytes:
        body, self._answer_body = self._answer_body, b""
        return reply(status, why, has_body=has_body, body=body)

    def _on_client_end(self, now: int) -> None:
        held = b"".join(self._request or ()) + self._head
        self._request, self._head, self._is_open = None, b"", True
        if held:
            super()._take(held, now)
        super()._on_client_end(now)


def _is_json(route: Route) -> bool:
    kind = (route.request.value(b"content-type") or b"").partition(b";")[0].strip(b" \t").lower()
    return kind in (b"", b"application/json")
