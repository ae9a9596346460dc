"""The side of a tunnel on which a client asks: each request is held until it is known what becomes of it.

*Records.* A request that mcpproxy answers or cuts off itself is recorded as the client sent it, with a note
that names the rule before our answer. Of all other bytes that met a fault the journal has both: what the
sender sent, and what the receiver was given instead. A message at a breakpoint is recorded when it comes, so
that it is not lost if the proxy is killed meanwhile."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from mcpproxy.gate.intercept.addons.addon_outcomes import AddonOutcome, instead_after
from mcpproxy.gate.intercept.addons.closed_gate import Withheld
from mcpproxy.gate.intercept.addons.closed_gate_http import check_request
from mcpproxy.gate.intercept.fault_decisions import FaultDecision
from mcpproxy.gate.intercept.fault_effects import delay_of
from mcpproxy.gate.intercept.held_messages import Released, held_message
from mcpproxy.gate.intercept.http.http_answer_steps import ExpectedAnswer, marked
from mcpproxy.gate.intercept.http.http_heads import new_head, status_reply, with_length
from mcpproxy.gate.intercept.http.http_request_holder import HeldRequest, RequestHolder, is_json
from mcpproxy.gate.intercept.policies import Asked, Instead, MetFault, Passing
from mcpproxy.judge.session.frame import CLIENT, FaultMark
from mcpproxy.protocol.jsonrpc import Request
from mcpproxy.record.relay import journal as journals
from mcpproxy.record.relay.http.reply import reply
from mcpproxy.record.relay.http.request_head import CHUNKED, Refusal
from mcpproxy.record.relay.http.route import Route

if TYPE_CHECKING:
    from mcpproxy.gate.intercept.http.http_gate import EnteredRequest, HttpGate
    from mcpproxy.record.relay.http.proxy_interface import GatedTunnel

_ANSWERED: Final = ("error", "status", "lose-session", "expire-token")
"""Verbs with which mcpproxy answers a request itself."""
_NOT_ALTERED: Final = (*_ANSWERED, "drop", "disconnect", "delay")
"""Verbs that do not change the bytes of a request."""
_ACCEPTED: Final = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
"""The answer to a notification or a response that is dropped."""


class RequestSide:
    """Does to the requests of one tunnel what the policies say. While one waits, the client is not read."""

    def __init__(self, gate: HttpGate, tunnel: GatedTunnel) -> None:
        self._gate, self._tunnel = gate, tunnel
        self._holder = RequestHolder(
            gate.proxy.router.route, self._on_head, self._note_unjudged, holds_all=gate.policies.has_entry
        )
        self._fails_closed = bool(gate.policies.gate.addons)
        self._ids: deque[bytes] = deque()  # of the requests that were read and not forwarded yet
        self._head_decision: FaultDecision | None = None  # about the head of the next request's answer
        self._altered: tuple[bytes, FaultMark, bytes, bytes] | None = None
        """The next request as the client sent it, its fault, and the head and content that are given."""
        self._unrecorded = b""  # what a client has sent whose request waits, recorded when it goes on
        self.held_number = 0  # of the request that a breakpoint holds

    def take_bytes(self, data: bytes, now_ns: int) -> None:
        """Take bytes of the client: hold a request until it is complete, forward other bytes at once."""
        tunnel = self._tunnel
        passing: list[bytes] = []
        judged = 0  # how many pieces of ``passing`` were judged
        while data and not self._holder.passes_all:
            try:
                held = self._holder.feed(data, passing)
            except Refusal as refusal:
                self._forward_passing(passing, now_ns)
                self._on_unreadable(refusal, self._holder.take_held(), now_ns)
                return
            if held is None:
                data = b""
                break
            tunnel.records.begin(now_ns)
            number = tunnel.records.number
            if earlier := b"".join(passing[judged:]):
                self._gate.pass_early(earlier, now_ns, number)
            entered = self._gate.enter(held.raw, now_ns, number)
            self._ids[-1] = entered.id
            refused = None
            if entered.action is None:
                refused = self._gate.leave(held.raw, now_ns, number, is_altered=False)
            if entered.action is not None or refused is not None:
                self._forward_passing(passing, now_ns)
                if not tunnel.is_over and refused is not None:
                    self._answer(held, now_ns, f"{refused.by}: {refused.why}", refused.answer, refused.status)
                elif not tunnel.is_over:
                    self._act(entered, held, now_ns)
                return
            passing.append(held.raw)
            judged, data = len(passing), held.after
        if data:  # after a request that ends HTTP
            passing.append(data)
        self._forward_passing(passing, now_ns)

    def take_end(self, now_ns: int) -> None:
        """Forward what is held of a request that ends early, because it cannot be judged."""
        was_holding = self._holder.is_holding
        held = self._holder.take_held()
        if self._fails_closed and was_holding and self._holder.is_gated:
            self._on_unreadable(Refusal(400, "the request is not complete"), held, now_ns)
            return
        self._holder.passes_all = True
        if held:
            self._tunnel.forward(held, now_ns)

    def _forward_passing(self, passing: list[bytes], now_ns: int) -> None:
        if passing:
            self._tunnel.forward(b"".join(passing), now_ns)

    def _on_head(self, route: Route) -> bool:
        """Take note of a head; return whether its request is gated.

        Raises:
            Refusal: no addon could be asked about what follows.
        """
        is_gated = False
        if self._fails_closed:
            paths = self._gate.paths
            paths.add(route.upstream.path)
            is_gated = paths.has(route.request.path.decode("latin-1"))
            check_request(route, is_gated=is_gated, is_json=is_json(route))
        self._ids.append(b"")
        return is_gated

    def _note_unjudged(self, why: str) -> None:
        self._tunnel.records.note("unjudged", why, journals.now_ns())

    def _on_unreadable(self, refusal: Refusal, rest: bytes, now_ns: int) -> None:
        """Do with ``rest``, which begins with a request that cannot be read, what has to be done."""
        tunnel = self._tunnel
        if not self._fails_closed:
            self._holder.passes_all = True
            tunnel.forward(rest, now_ns)  # the tunnel refuses this head when it gets the bytes
        elif not tunnel.is_over:
            tunnel.records.begin(now_ns)
            tunnel.records.add(journals.CLIENT, now_ns, rest)
            refusal.has_body = not rest.startswith(b"HEAD ")
            tunnel.refuse(refusal, now_ns)

    def on_request(self, route: Route, now_ns: int) -> ExpectedAnswer:
        """Return what is known of the answer to a request that is forwarded; record what is given instead."""
        if self._altered is not None:
            (sent, fault, head, content), self._altered = self._altered, None
            records = self._tunnel.records
            if sent:  # otherwise it was recorded when a breakpoint held it
                records.add(journals.CLIENT_ALTERED, now_ns, marked(fault, sent, has_more=True))
            records.add(journals.CLIENT_GIVEN, now_ns, marked(fault, head, "head", has_more=bool(content)))
            if content:
                records.add(journals.CLIENT_GIVEN, now_ns, marked(fault, content, "body"))
        session = (route.request.value(b"mcp-session-id") or b"").decode("latin-1")
        decision, self._head_decision = self._head_decision, None
        method, id = route.request.method.decode("ascii"), self._ids.popleft() if self._ids else b""
        target = route.request.path.decode("latin-1")
        return ExpectedAnswer(session, method, decision, self._gate.paths.has(target), id, target)

    # What becomes of a request

    def _act(self, entered: EnteredRequest, held: HeldRequest, now_ns: int) -> None:
        passing = entered.passing
        match entered.action:
            case MetFault(decision) as met if decision.rule.action.verb == "pause" and passing is not None:
                self._hold(met, passing, held, now_ns)
            case MetFault() as met:
                delay_ns = delay_of(met.decision, len(held.raw))
                if not delay_ns or _is_stream_cut(met, held):
                    self._meet(met, passing, held, now_ns)
                else:
                    go_on = self._let_wait(held, lambda now_ns: self._meet(met, passing, held, now_ns))
                    self._gate.proxy.timers.start(delay_ns / 1e9, go_on)
            case Asked(hook) if passing is not None:
                self._ask(hook, passing, held)
            case Withheld() as withheld:
                self._withhold(withheld, passing, held, now_ns)
            case Instead() as instead if passing is not None:
                self._replace(instead, passing, held, now_ns)
            case _:
                raise AssertionError(entered.action)

    def _let_wait(self, held: HeldRequest, go_on: Callable[[int], None]) -> Callable[[], None]:
        """Let a request wait, and read the client no further; return what has to be called to go on."""
        tunnel, self._unrecorded = self._tunnel, held.raw + held.after
        tunnel.holds_client = True
        tunnel.watch()

        def resume() -> None:
            tunnel.holds_client, self._unrecorded = False, b""
            if not tunnel.is_over:
                go_on(time.monotonic_ns())
                tunnel.watch()

        return resume

    def _ask(self, hook: str, passing: Passing, held: HeldRequest) -> None:
        """Ask addons about a request, and do what they say."""
        addons = self._gate.addons
        assert addons is not None

        def answered(outcome: AddonOutcome) -> None:
            def go_on(now_ns: int) -> None:
                instead = instead_after(outcome, passing.raw, passing.message)
                if instead is None:
                    self._forward(held.raw, held, now_ns)
                else:
                    self._replace(instead, passing, held, now_ns)

            said.append(go_on)
            resume()

        said: list[Callable[[int], None]] = []
        resume = self._let_wait(held, lambda now_ns: said[0](now_ns))
        addons.ask(hook, passing.session, CLIENT, passing.raw, answered)

    def _hold(self, met: MetFault, passing: Passing, held: HeldRequest, now_ns: int) -> None:
        """Hold a request at a breakpoint. It is recorded now; what is forwarded later is recorded then."""
        rule = met.decision.rule
        fault = self._gate.mark(rule.name, rule.action.verb)
        self._tunnel.records.add(journals.CLIENT_ALTERED, now_ns, marked(fault, held.raw, has_more=True))
        outcome: list[Released] = []

        def go_on(now_ns: int) -> None:
            released = outcome[0]
            if released.given is not None:
                given, head, content = _with_content(held, passing.raw, released.given)
                self._altered = b"", fault, head, content
                self._forward(given, held, now_ns)
            elif released.answer is not None:
                self._answer(held, now_ns, f"rule {rule.name}: error", released.answer, is_recorded=True)
            else:
                self._drop(held, now_ns, f"rule {rule.name}: drop", is_recorded=True)

        resume = self._let_wait(held, go_on)
        self._unrecorded = b""

        def released(what: Released, now_ns: int) -> None:
            del now_ns
            self.held_number = 0
            outcome.append(what)
            resume()

        self.held_number = fault.number
        self._gate.held.hold(held_message(fault, passing, met.decision, now_ns), released)

    def _meet(self, met: MetFault, passing: Passing | None, held: HeldRequest, now_ns: int) -> None:
        """Do to a request what a rule says."""
        decision, action = met.decision, met.decision.rule.action
        what = f"rule {decision.rule.name}: {action.verb} {action.count or ''}".strip()
        tunnel = self._tunnel
        if _is_stream_cut(met, held):
            tunnel.records.note("fault", f"{what} of the stream", now_ns)
            self._forward(held.raw, held, now_ns)
            self._gate.proxy.timers.start(delay_of(decision, 0) / 1e9, lambda: self._cut(decision))
        elif action.verb == "delay":
            delay_ms = delay_of(decision, len(held.raw)) // 1_000_000
            tunnel.records.note("fault", f"{what} of {delay_ms} ms", now_ns)
            self._forward(held.raw, held, now_ns)
        elif action.verb in ("set-header", "drop-header") and action.text == "response":
            self._head_decision = decision
            self._forward(held.raw, held, now_ns)
        elif action.verb not in _NOT_ALTERED:
            self._forward(self._alter(met, passing.raw if passing is not None else b"", held), held, now_ns)
        elif action.verb in _ANSWERED:
            tunnel.records.add(journals.CLIENT, now_ns, held.raw + held.after)
            response = status_reply(action, what, met.effect.answer or b"")
            tunnel.refuse(Refusal(action.count or 200, what, response=response), now_ns)
        else:
            tunnel.records.add(journals.CLIENT, now_ns, held.raw + held.after)
            tunnel.records.note("fault", what, now_ns)
            self._cut(decision)

    def _alter(self, met: MetFault, message: bytes, held: HeldRequest) -> bytes:
        """Return the request that is forwarded instead."""
        action = met.decision.rule.action
        if action.verb in ("set-header", "drop-header"):
            head, blank, body = held.raw.partition(b"\r\n\r\n")
            head, content = new_head(action, head + blank), message
            given = head + body
        else:
            new = b"\n".join(data for _, data in met.effect.given)
            given, head, content = _with_content(held, message, new)
        self._altered = held.raw, self._gate.mark(met.decision.rule.name, action.verb), head, content
        return given

    def _withhold(self, withheld: Withheld, passing: Passing | None, held: HeldRequest, now_ns: int) -> None:
        """Answer a request that must not pass; in the place of an answer the server gets an error."""
        by = f"addon {self._gate.policies.gate.addons}"
        if withheld.given is not None and passing is not None:
            self._replace(Instead(by, "error", withheld.given), passing, held, now_ns)
        else:
            status = 200 if withheld.is_known else 400
            self._answer(held, now_ns, f"{by}: {withheld.why}", withheld.answer or b"", status)

    def _replace(self, instead: Instead, passing: Passing, held: HeldRequest, now_ns: int) -> None:
        """Give other bytes in the place of a request, or answer it."""
        what = f"{instead.by}: {instead.how}"
        if instead.given is not None:
            new, head, content = _with_content(held, passing.raw, instead.given)
            self._altered = held.raw, self._gate.mark(instead.by, instead.how), head, content
            self._forward(new, held, now_ns)
        elif instead.answer is not None:
            self._answer(held, now_ns, what, instead.answer)
        elif not isinstance(passing.message, Request):
            self._tunnel.records.add(journals.CLIENT, now_ns, held.raw + held.after)
            self._tunnel.refuse(Refusal(202, what, has_body=False, response=_ACCEPTED), now_ns)
        else:
            self._drop(held, now_ns, what)

    def _answer(
        self,
        held: HeldRequest,
        now_ns: int,
        what: str,
        answer: bytes,
        status: int = 200,
        *,
        is_recorded: bool = False,
    ) -> None:
        """Answer a request; with ``is_recorded`` the request itself is recorded already."""
        sent = held.after if is_recorded else held.raw + held.after
        self._tunnel.records.add(journals.CLIENT, now_ns, sent)
        self._tunnel.refuse(Refusal(status, what, response=reply(status, what, body=answer)), now_ns)

    def _drop(self, held: HeldRequest, now_ns: int, what: str, *, is_recorded: bool = False) -> None:
        """Close the connection of a request that is not answered."""
        sent = held.after if is_recorded else held.raw + held.after
        self._tunnel.records.add(journals.CLIENT, now_ns, sent)
        self._tunnel.records.note("fault", what, now_ns)
        self._tunnel.close()

    def _forward(self, request: bytes, held: HeldRequest, now_ns: int) -> None:
        """Forward a request in the place of ``held``, and take what follows it."""
        tunnel, is_altered = self._tunnel, self._altered is not None
        refused = self._gate.leave(request, now_ns, tunnel.records.number, is_altered=is_altered)
        if refused is not None:
            is_recorded = self._altered is not None and not self._altered[0]
            if is_altered and not is_recorded:
                self._gate.skip_recorded(tunnel.records.number, len(held.raw))
            self._altered = None
            what = f"{refused.by}: {refused.why}"
            self._answer(held, now_ns, what, refused.answer, refused.status, is_recorded=is_recorded)
            return
        tunnel.forward(request, now_ns, is_recorded=is_altered)
        self._altered = None  # a head that nobody can read has not reached ``on_request``
        if held.after and not tunnel.is_over:
            self.take_bytes(held.after, now_ns)

    def _cut(self, decision: FaultDecision) -> None:
        """Close the connection, as a rule asks."""
        if not self._tunnel.is_over:
            if decision.rule.action.text == "reset":
                self._tunnel.client.abort()
            self._tunnel.close()

    def close(self) -> None:
        """Record what a client has sent whose request waits, and hold it no more."""
        if self._unrecorded:
            self._tunnel.records.add(journals.CLIENT, time.monotonic_ns(), self._unrecorded)
        if self.held_number:
            self._gate.held.forget(self.held_number)


def _is_stream_cut(met: MetFault, held: HeldRequest) -> bool:
    """Whether the stream that a request asks for is cut when the delay is over."""
    action = met.decision.rule.action
    return action.verb == "disconnect" and action.delay_ns > 0 and held.route.request.method == b"GET"


def _with_content(held: HeldRequest, message: bytes, new: bytes) -> tuple[bytes, bytes, bytes]:
    """Return a request with ``new`` in the place of ``message``: all of it, its head, and ``new``."""
    head, blank, body = held.raw.partition(b"\r\n\r\n")
    head += blank
    if new == message:
        return held.raw, head, new
    if held.route.length == CHUNKED:
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(new), new)
    else:
        head, body = with_length(head, len(new)), new
    return head + body, head, new
