"""A connection whose requests and answers meet faults.

What an `AnswerReader` makes of answers is sent to the client by a `FaultTunnel`.

*Records.* A request that mcpproxy answers or cuts off itself is recorded as the client sent it, with a note
that names the rule before our answer. Of all other bytes that met a fault the journal has both: what the
sender sent, and what the receiver was given instead. A message at a breakpoint is recorded when it comes, so
that it is not lost if the proxy is killed meanwhile."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

from mcpproxy.intercept.addons.addon_outcomes import outcome_of
from mcpproxy.intercept.addons.closed_gate_http import check_request, too_long
from mcpproxy.intercept.fault_effects import delay_of, effect_of
from mcpproxy.intercept.held_messages import HeldMessage
from mcpproxy.intercept.http_answer_side import AnsweringTunnel, marked
from mcpproxy.intercept.http_answer_steps import ExpectedAnswer
from mcpproxy.intercept.http_enforcer import AskedRequest, WithheldRequest
from mcpproxy.intercept.http_enforcing import is_json
from mcpproxy.intercept.http_heads import new_head, reason, status_headers, with_length
from mcpproxy.protocol.jsonrpc import parse
from mcpproxy.relay import journal as journals
from mcpproxy.relay.http.reply import reply
from mcpproxy.relay.http.request_head import CHUNKED, Refusal
from mcpproxy.relay.http.tunnel import Tunnel
from mcpproxy.session.frame import CLIENT

if TYPE_CHECKING:
    from mcpproxy.intercept.addons.addon_outcomes import AddonOutcome
    from mcpproxy.intercept.fault_decisions import FaultDecision
    from mcpproxy.intercept.held_messages import Released
    from mcpproxy.intercept.http_enforcer import FaultVerdict
    from mcpproxy.intercept.policies import Refused
    from mcpproxy.relay.http.dial import Sock
    from mcpproxy.relay.http.proxy_interface import ProxyInterface
    from mcpproxy.relay.http.route import Route
    from mcpproxy.session.frame import FaultMark


class FaultTunnel(AnsweringTunnel):
    """A tunnel whose requests and answers meet faults. While one is delayed, its sender is not read."""

    __slots__ = ("_altered", "_decision", "_head_decision", "_ids", "_is_delayed", "_is_gated", "_unrecorded")

    def __init__(self, proxy: ProxyInterface, sock: Sock, peer: str) -> None:
        self._is_delayed = False
        self._decision: FaultDecision | None = None  # whose answer is sent next
        self._head_decision: FaultDecision | None = None  # about the head of the next request's answer
        self._altered: tuple[bytes, FaultMark, bytes, bytes] | None = None
        """The next request as the client sent it, its fault, and the head and content that are given."""
        self._ids: deque[bytes] = deque()  # of the requests that were read and not forwarded yet
        self._is_gated = False  # whether the request that is read has to pass a gate that fails closed
        self._unrecorded = b""  # what a delayed client has sent, which is recorded when the delay is over
        super().__init__(proxy, sock, peer)

    def _find_head(self, buffer: bytes, position: int, now: int) -> int:
        self._check_head(buffer, position)
        end = super()._find_head(buffer, position, now)
        if end > position + 2:
            self._ids.append(b"")
        is_head = buffer.startswith((b"GET ", b"DELETE "), position) and end > position
        if is_head and self._body_counter is None and not self._forwards_all:
            self._request, self._request_bytes = [], 0  # it is held only to be judged
        return end

    def _check_head(self, buffer: bytes, position: int) -> None:
        """Check a head that begins here, if a gate fails closed.

        Raises:
            Refusal: no addon could be asked about what follows.
        """
        end = buffer.find(b"\r\n\r\n", position) + 4
        if not self._faults.gate.addons or end < 4 or buffer.startswith(b"\r\n", position):
            return
        route = self._proxy.router.route(buffer[position:end])
        self._faults.paths.add(route.upstream.path)
        self._is_gated = self._faults.paths.has(route.request.path.decode("latin-1"))
        check_request(route, is_gated=self._is_gated, is_json=is_json(route))

    def _on_judged(self) -> None:
        if self._ids:
            self._ids[-1] = self._faults.id

    def _stop_holding(self, why: str, now: int) -> list[bytes]:
        if self._faults.gate.addons and self._is_gated:
            raise too_long()
        return super()._stop_holding(why, now)

    def _on_unreadable(self, refusal: Refusal, passing: list[bytes], rest: bytes, now: int) -> None:
        if not self._faults.gate.addons:
            super()._on_unreadable(refusal, passing, rest, now)
            return
        if passing:
            Tunnel._take(self, b"".join(passing), now)
        if not self._is_over:
            self._records.begin(now)
            self._records.add(journals.CLIENT, now, rest)
            refusal.has_body = not rest.startswith(b"HEAD ")
            self._refuse(refusal, now)

    def _on_client_end(self, now: int) -> None:
        if self._faults.gate.addons and self._request is not None and self._is_gated:
            rest, self._request = b"".join(self._request), None
            self._on_unreadable(Refusal(400, "the request is not complete"), [], rest, now)
        if not self._is_over:
            super()._on_client_end(now)

    def _on_request(self, route: Route, changes_server: bool, is_pipelined: bool, now: int) -> None:
        super()._on_request(route, changes_server, is_pipelined, now)
        session = (route.request.value(b"mcp-session-id") or b"").decode("latin-1")
        decision, self._head_decision = self._head_decision, None
        method, id = route.request.method.decode("ascii"), self._ids.popleft() if self._ids else b""
        target = route.request.path.decode("latin-1")
        is_gated = self._faults.paths.has(target)
        self._answers.expected.append(ExpectedAnswer(session, method, decision, is_gated, id, target))

    def _refuse_request(
        self, passing: list[bytes], request: bytes, after: bytes, verdict: Refused, now: int
    ) -> None:
        """Forward ``passing``, the bytes before ``request``, and do to ``request`` what its rule says.

        ``after`` are the bytes that follow the request.
        """
        del verdict  # it only says that something meets the request
        if passing:
            Tunnel._take(self, b"".join(passing), now)
        met, asked = self._faults.verdict, self._faults.asked
        if (withheld := self._faults.withheld) is not None and not self._is_over:
            self._withhold_request(withheld, request, after, now)
            return
        if asked is not None and not self._is_over:
            self._ask_about_request(asked, request, after)
            return
        if self._is_over or met is None:
            return
        if met.decision.rule.action.verb == "pause":
            self._hold_request(met, request, after, now)
            return
        if not (delay_ns := delay_of(met.decision, len(request))) or met.is_stream_cut:
            self._act(met, request, after, now)
            return

        def go_on() -> None:
            self._is_delayed, self._unrecorded = False, b""
            if not self._is_over:
                self._act(met, request, after, time.monotonic_ns())
                self._watch()

        self._is_delayed, self._unrecorded = True, request + after
        self._watch()
        self._proxy.timers.start(delay_ns / 1e9, go_on)

    def _hold_request(self, met: FaultVerdict, request: bytes, after: bytes, now: int) -> None:
        """Hold ``request`` at a breakpoint. It is recorded now; what is forwarded later is recorded then."""
        decision, action = met.decision, met.decision.rule.action
        fault = self._faults.mark(decision.rule.name, action.verb)
        self._records.add(journals.CLIENT_ALTERED, now, marked(fault, request, has_more=True))

        def go_on(released: Released) -> None:
            self._is_delayed = False
            if self._is_over:
                return
            now = time.monotonic_ns()
            if released.given is not None:
                given, head, content = self._with_content(request, met.content, released.given)
                self._altered = b"", fault, head, content
                self._forward(given, after, now)
            else:
                self._records.add(journals.CLIENT, now, after)
                what = f"rule {decision.rule.name}: {'error' if released.answer is not None else 'drop'}"
                if released.answer is not None:
                    self._answer_body = released.answer
                    self._refuse(Refusal(200, what), now)
                else:
                    self._records.note("fault", what, now)
                    self._close()
            self._watch()

        self._is_delayed = True
        self._watch()
        self._hold(
            HeldMessage(
                fault,
                CLIENT,
                met.content,
                parse(met.content),
                since_ns=now,
                until_ns=now + action.gap_ns,
                then=action.text,
                findings=decision.findings,
            ),
            go_on,
        )

    def _withhold_request(self, met: WithheldRequest, request: bytes, after: bytes, now: int) -> None:
        """Answer a request that must not pass; in the place of an answer the server gets an error."""
        addons, withheld = self._faults.gate.addons, met.withheld
        if withheld.given is not None:
            fault = self._faults.mark(f"addon {addons}", "error")
            new, head, content = self._with_content(request, met.content, withheld.given)
            self._altered = request, fault, head, content
            self._forward(new, after, now)
            return
        self._records.add(journals.CLIENT, now, request + after)
        self._answer_body = withheld.answer or b""
        self._refuse(Refusal(200 if withheld.is_known else 400, f"addon {addons}: {withheld.why}"), now)

    def _ask_about_request(self, asked: AskedRequest, request: bytes, after: bytes) -> None:
        """Ask addons about ``request``, and do what they say."""
        addons = self._fault_proxy.addons
        assert addons is not None

        def answered(outcome: AddonOutcome) -> None:
            self._is_delayed, self._unrecorded = False, b""
            if self._is_over:
                return
            now = time.monotonic_ns()
            what = f"addon {outcome.addon}: {outcome.how}"
            given, answer = outcome_of(outcome, asked.content, asked.message)
            if given == asked.content:
                self._forward(request, after, now)
            elif given is not None:
                new, head, content = self._with_content(request, asked.content, given)
                fault = self._faults.mark(f"addon {outcome.addon}", outcome.how)
                self._altered = request, fault, head, content
                self._forward(new, after, now)
            else:
                self._records.add(journals.CLIENT, now, request + after)
                self._answer_body = answer or b""
                if answer is not None or asked.kind != "request":
                    status = 200 if answer is not None else 202
                    self._refuse(Refusal(status, what, has_body=answer is not None), now)
                else:
                    self._records.note("fault", what, now)
                    self._close()
            self._watch()

        self._is_delayed, self._unrecorded = True, request + after
        self._watch()
        addons.ask(asked.kind, asked.session, CLIENT, asked.content, answered)

    def _act(self, verdict: FaultVerdict, request: bytes, after: bytes, now: int) -> None:
        """Do to ``request`` what the rule of ``verdict`` says."""
        decision, action = verdict.decision, verdict.decision.rule.action
        what = f"rule {decision.rule.name}: {action.verb} {action.count or ''}".strip()
        if verdict.is_stream_cut:
            self._records.note("fault", f"{what} of the stream", now)
            self._forward(request, after, now)
            self._proxy.timers.start(delay_of(decision, 0) / 1e9, lambda: self._cut(decision))
        elif action.verb == "delay":
            self._records.note("fault", f"{what} of {delay_of(decision, len(request)) // 1_000_000} ms", now)
            self._forward(request, after, now)
        elif action.verb in ("set-header", "drop-header") and action.text == "response":
            self._head_decision = decision
            self._forward(request, after, now)
        elif verdict.is_altered:
            self._forward(self._alter(verdict, request), after, now)
        elif action.verb in ("error", "status", "lose-session", "expire-token"):
            self._decision = decision
            self._records.add(journals.CLIENT, now, request + after)
            self._answer_body = verdict.body
            self._refuse(Refusal(action.count or 200, what), now)
        else:
            self._records.add(journals.CLIENT, now, request + after)
            self._records.note("fault", what, now)
            self._cut(decision)

    def _forward(self, request: bytes, after: bytes, now: int) -> None:
        Tunnel._take(self, request, now)
        if after and not self._is_over:
            self._take(after, now)

    def _alter(self, verdict: FaultVerdict, request: bytes) -> bytes:
        """Return the request that is forwarded instead."""
        decision, message = verdict.decision, verdict.content
        action = decision.rule.action
        if action.verb in ("set-header", "drop-header"):
            head, blank, body = request.partition(b"\r\n\r\n")
            head, content = new_head(action, head + blank), message
            given = head + body
        else:
            effect = effect_of(decision, message, parse(message))
            new = b"\n".join(data for _, data in effect.given) if effect else message
            given, head, content = self._with_content(request, message, new)
        self._altered = request, self._faults.mark(decision.rule.name, action.verb), head, content
        return given

    def _with_content(self, request: bytes, message: bytes, new: bytes) -> tuple[bytes, bytes, bytes]:
        """Return a request with ``new`` in the place of ``message``: all of it, its head, and ``new``."""
        head, blank, body = request.partition(b"\r\n\r\n")
        head += blank
        if new == message:
            return request, head, new
        if self._proxy.router.route(head).length == CHUNKED:
            body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(new), new)
        else:
            head, body = with_length(head, len(new)), new
        return head + body, head, new

    def _forward_up(self, out: list[bytes], data: bytes, now: int) -> None:
        if self._altered is not None and out:
            (sent, fault, head, content), self._altered = self._altered, None
            if sent:  # otherwise it was recorded when a breakpoint held it
                self._records.add(journals.CLIENT_ALTERED, now, marked(fault, sent, has_more=True))
            self._records.add(journals.CLIENT_GIVEN, now, marked(fault, head, "head", has_more=bool(content)))
            if content:
                self._records.add(journals.CLIENT_GIVEN, now, marked(fault, content, "body"))
            data = b""
        super()._forward_up(out, data, now)

    def _cut(self, decision: FaultDecision) -> None:
        """Close the connection, as a rule asks."""
        if not self._is_over:
            if decision.rule.action.text == "reset":
                self._client.abort()
            self._close()

    def _reply(self, status: int, why: str, *, has_body: bool) -> bytes:
        if status == 202:
            return b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        if self._decision is None:
            return super()._reply(status, why, has_body=has_body)
        body, self._answer_body = self._answer_body, b""
        headers = status_headers(self._decision.rule.action)
        fields = b"".join(f"\r\n{name}: {value}".encode("latin-1", "replace") for name, value in headers)
        _, _, rest = reply(200, why, has_body=has_body, body=body).partition(b"\r\n")
        return f"HTTP/1.1 {status} {reason(status)}".encode() + fields + b"\r\n" + rest

    def _close(self) -> None:
        if self._unrecorded and not self._is_over:
            self._records.add(journals.CLIENT, time.monotonic_ns(), self._unrecorded)
        super()._close()

    def _watch(self) -> None:
        super()._watch()
        if self._is_delayed and not self._is_over:
            self._client.watch(False)
