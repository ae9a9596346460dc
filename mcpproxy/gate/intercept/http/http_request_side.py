"""The client side of a tunnel: it holds each request until it is decided what to do with it.

*Records.* A request that mcpproxy itself answers or cuts off is recorded as the client sent it, followed by a
note that names the rule. For any other request that a policy changes, the journal, from which the recording
is made, has both what the client sent and what the server was given instead. A request at a breakpoint is
recorded when it arrives, so that it is not lost if the proxy is killed meanwhile."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from mcpproxy.gate.intercept.addons.addon_outcomes import AddonOutcome, instead_after
from mcpproxy.gate.intercept.addons.closed_gate import Withheld
from mcpproxy.gate.intercept.addons.closed_gate_http import check_request
from mcpproxy.gate.intercept.fault_decisions import FaultDecision
from mcpproxy.gate.intercept.held_messages import Released
from mcpproxy.gate.intercept.http.http_answer_steps import ExpectedAnswer
from mcpproxy.gate.intercept.http.http_heads import new_head, status_reply, with_length
from mcpproxy.gate.intercept.http.http_request_holder import HeldRequest, RequestHolder, is_json
from mcpproxy.gate.intercept.policies import AppliedFault, Asked, Instead, Passing, marked
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
"""The verbs by which mcpproxy itself answers a request."""
_NOT_ALTERED: Final = (*_ANSWERED, "drop", "disconnect", "delay")
"""The verbs that do not change the bytes of a request."""
_ACCEPTED: Final = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
"""The HTTP response to a notification, or to a JSON-RPC response, that addons drop."""


class RequestSide:
    """Applies the policies to the requests of one tunnel. While a request waits, the client is not read."""

    def __init__(self, gate: HttpGate, tunnel: GatedTunnel) -> None:
        self._gate, self._tunnel = gate, tunnel
        self._holder = RequestHolder(
            gate.proxy.router.route, self._on_head, self._note_unjudged, holds_all=gate.policies.has_entry
        )
        self._fails_closed = bool(gate.policies.gate.addons)
        self._ids: deque[bytes] = deque()
        """``EnteredRequest.id`` of each request that was read and not forwarded yet."""
        self._head_decision: FaultDecision | None = None
        """The fault that changes the head of the answer to the next forwarded request."""
        self._altered: tuple[bytes, FaultMark, bytes, bytes] | None = None
        """The next forwarded request as the client sent it, its fault, and the new head and content.

        The first is empty if it is recorded already."""
        self._unrecorded = b""
        """The client's bytes while a request waits; recorded when it proceeds, or the tunnel closes."""
        self.held_number = 0
        """The number of the fault of the request that a breakpoint holds; 0 for none."""

    def take_bytes(self, data: bytes, now_ns: int) -> None:
        """Take bytes of the client: hold a request until it is complete, forward other bytes at once."""
        tunnel = self._tunnel
        passing: list[bytes] = []
        shown = 0  # how many pieces of ``passing`` the policies have seen
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
            if earlier := b"".join(passing[shown:]):
                self._gate.read_early(earlier, now_ns, number)
            entered = self._gate.enter(held.raw, now_ns, number)
            self._ids[-1] = entered.id
            refused = None
            if entered.action is None:
                refused = self._gate.leave(held.raw, now_ns, number, is_altered=False)
            if entered.action is not None or refused is not None:
                self._forward_passing(passing, now_ns)
                if not tunnel.is_over and refused is not None:
                    self._answer_request(
                        held, now_ns, f"{refused.by}: {refused.why}", refused.answer, refused.status
                    )
                elif not tunnel.is_over:
                    self._act_on_request(entered, held, now_ns)
                return
            passing.append(held.raw)
            shown, data = len(passing), held.after
        if data:  # bytes after a request that ends HTTP, such as an upgrade
            passing.append(data)
        self._forward_passing(passing, now_ns)

    def take_end(self, now_ns: int) -> None:
        """Forward the held bytes of a request that ends early and so cannot be judged.

        If an addon fails closed and the request is gated, they are refused.
        """
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
        """Take note of the head of a request; return whether the request is gated.

        Raises:
            Refusal: an addon fails closed, and could not be asked (see ``check_request``).
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
        """Forward ``rest``, which begins with a request that cannot be read.

        If an addon fails closed, ``rest`` is refused; it may then also begin with a request that must not
        pass.
        """
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
        """Return the facts about the expected answer to a request that is now forwarded.

        If the request was changed, record it as the client sent it and as it is given.
        """
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

    def _act_on_request(self, entered: EnteredRequest, held: HeldRequest, now_ns: int) -> None:
        """Carry out the action that a policy has decided on for a request."""
        passing = entered.passing
        match entered.action:
            case AppliedFault(is_breakpoint=True) as applied if passing is not None:
                self._hold_request(applied, passing, held, now_ns)
            case AppliedFault() as applied:
                delay_ns = applied.decision.delay_ns
                if not delay_ns or _is_stream_cut(applied, held):
                    self._apply_fault(applied, passing, held, now_ns)
                else:
                    resume = self._suspend_request(
                        held, lambda now_ns: self._apply_fault(applied, passing, held, now_ns)
                    )
                    self._gate.proxy.timers.start(delay_ns / 1e9, resume)
            case Asked(hook) if passing is not None:
                self._ask_addons(hook, passing, held)
            case Withheld() as withheld:
                self._withhold_request(withheld, passing, held, now_ns)
            case Instead() as instead if passing is not None:
                self._replace_request(instead, passing, held, now_ns)
            case _:
                raise AssertionError(entered.action)

    def _suspend_request(self, held: HeldRequest, proceed: Callable[[int], None]) -> Callable[[], None]:
        """Let a request wait, and stop reading the client; return a function that resumes both.

        Unless the tunnel is over, it then calls ``proceed`` with the time, in ns.
        """
        tunnel, self._unrecorded = self._tunnel, held.raw + held.after
        tunnel.holds_client = True
        tunnel.watch()

        def resume() -> None:
            tunnel.holds_client, self._unrecorded = False, b""
            if not tunnel.is_over:
                proceed(time.monotonic_ns())
                tunnel.watch()

        return resume

    def _ask_addons(self, hook: str, passing: Passing, held: HeldRequest) -> None:
        """Ask addons about a request, and act on their outcome."""
        addons = self._gate.addons
        assert addons is not None
        outcomes: list[AddonOutcome] = []

        def proceed(now_ns: int) -> None:
            instead = instead_after(outcomes[0], passing.raw, passing.message)
            if instead is None:
                self._forward_request(held.raw, held, now_ns)
            else:
                self._replace_request(instead, passing, held, now_ns)

        resume = self._suspend_request(held, proceed)

        def on_outcome(outcome: AddonOutcome) -> None:
            outcomes.append(outcome)
            resume()

        addons.ask(hook, passing.session, CLIENT, passing.raw, on_outcome)

    def _hold_request(self, applied: AppliedFault, passing: Passing, held: HeldRequest, now_ns: int) -> None:
        """Hold a request at a breakpoint. It is recorded now; what is forwarded, after the release."""
        rule = applied.decision.rule
        fault = self._gate.mark(rule.name, rule.action.verb)
        self._tunnel.records.add(journals.CLIENT_ALTERED, now_ns, marked(fault, held.raw, has_more=True))
        releases: list[Released] = []

        def proceed(now_ns: int) -> None:
            released = releases[0]
            if released.given is not None:
                given, head, content = _with_content(held, passing.raw, released.given)
                self._altered = b"", fault, head, content
                self._forward_request(given, held, now_ns)
            elif released.answer is not None:
                self._answer_request(
                    held, now_ns, f"rule {rule.name}: error", released.answer, is_recorded=True
                )
            else:
                self._drop_request(held, now_ns, f"rule {rule.name}: drop", is_recorded=True)

        resume = self._suspend_request(held, proceed)
        self._unrecorded = b""

        def on_release(released: Released, now_ns: int) -> None:
            del now_ns
            self.held_number = 0
            releases.append(released)
            resume()

        self.held_number = fault.number
        self._gate.held.hold(fault, passing, applied.decision, now_ns, on_release)

    def _apply_fault(
        self, applied: AppliedFault, passing: Passing | None, held: HeldRequest, now_ns: int
    ) -> None:
        """Do to a request what a fault rule says."""
        decision, action = applied.decision, applied.decision.rule.action
        what = f"rule {decision.rule.name}: {action.verb} {action.count or ''}".strip()
        tunnel = self._tunnel
        if _is_stream_cut(applied, held):
            tunnel.records.note("fault", f"{what} of the stream", now_ns)
            self._forward_request(held.raw, held, now_ns)
            self._gate.proxy.timers.start(decision.delay_ns / 1e9, lambda: self._cut_connection(decision))
        elif action.verb == "delay":
            delay_ms = decision.delay_ns // 1_000_000
            tunnel.records.note("fault", f"{what} of {delay_ms} ms", now_ns)
            self._forward_request(held.raw, held, now_ns)
        elif action.verb in ("set-header", "drop-header") and action.text == "response":
            self._head_decision = decision
            self._forward_request(held.raw, held, now_ns)
        elif action.verb not in _NOT_ALTERED:
            self._forward_request(
                self._altered_request(applied, passing.raw if passing is not None else b"", held),
                held,
                now_ns,
            )
        elif action.verb in _ANSWERED:
            tunnel.records.add(journals.CLIENT, now_ns, held.raw + held.after)
            response = status_reply(action, what, applied.effect.answer or b"")
            tunnel.refuse(Refusal(action.count or 200, what, response=response), now_ns)
        else:
            tunnel.records.add(journals.CLIENT, now_ns, held.raw + held.after)
            tunnel.records.note("fault", what, now_ns)
            self._cut_connection(decision)

    def _altered_request(self, applied: AppliedFault, message: bytes, held: HeldRequest) -> bytes:
        """Return the request that a fault rule makes of ``held``, and remember both for the records."""
        action = applied.decision.rule.action
        if action.verb in ("set-header", "drop-header"):
            head, blank, body = held.raw.partition(b"\r\n\r\n")
            head, content = new_head(action, head + blank), message
            given = head + body
        else:
            new = b"\n".join(data for _, data in applied.effect.given)
            given, head, content = _with_content(held, message, new)
        self._altered = held.raw, self._gate.mark(applied.decision.rule.name, action.verb), head, content
        return given

    def _withhold_request(
        self, withheld: Withheld, passing: Passing | None, held: HeldRequest, now_ns: int
    ) -> None:
        """Answer a request that must not pass.

        If it carries the answer to a request of the server, the server gets an error in its place.
        """
        by = f"addon {self._gate.policies.gate.addons}"
        if withheld.given is not None and passing is not None:
            self._replace_request(Instead(by, "error", withheld.given), passing, held, now_ns)
        else:
            status = 200 if withheld.is_known else 400
            self._answer_request(held, now_ns, f"{by}: {withheld.why}", withheld.answer or b"", status)

    def _replace_request(self, instead: Instead, passing: Passing, held: HeldRequest, now_ns: int) -> None:
        """Forward other bytes in the place of a request, answer it, or drop it."""
        what = f"{instead.by}: {instead.how}"
        if instead.given is not None:
            new, head, content = _with_content(held, passing.raw, instead.given)
            self._altered = held.raw, self._gate.mark(instead.by, instead.how), head, content
            self._forward_request(new, held, now_ns)
        elif instead.answer is not None:
            self._answer_request(held, now_ns, what, instead.answer)
        elif not isinstance(passing.message, Request):
            self._tunnel.records.add(journals.CLIENT, now_ns, held.raw + held.after)
            self._tunnel.refuse(Refusal(202, what, has_body=False, response=_ACCEPTED), now_ns)
        else:
            self._drop_request(held, now_ns, what)

    def _answer_request(
        self,
        held: HeldRequest,
        now_ns: int,
        what: str,
        answer: bytes,
        status: int = 200,
        *,
        is_recorded: bool = False,
    ) -> None:
        """Answer a request with ``answer``; ``is_recorded``: the request itself is recorded already."""
        sent = held.after if is_recorded else held.raw + held.after
        self._tunnel.records.add(journals.CLIENT, now_ns, sent)
        self._tunnel.refuse(Refusal(status, what, response=reply(status, what, body=answer)), now_ns)

    def _drop_request(self, held: HeldRequest, now_ns: int, what: str, *, is_recorded: bool = False) -> None:
        """Drop a request, which closes its connection; ``is_recorded`` as for ``_answer_request``."""
        sent = held.after if is_recorded else held.raw + held.after
        self._tunnel.records.add(journals.CLIENT, now_ns, sent)
        self._tunnel.records.note("fault", what, now_ns)
        self._tunnel.close()

    def _forward_request(self, request: bytes, held: HeldRequest, now_ns: int) -> None:
        """Forward ``request`` in the place of ``held``, unless a policy refuses it.

        Then take the bytes that follow ``held``.
        """
        tunnel, is_altered = self._tunnel, self._altered is not None
        refused = self._gate.leave(request, now_ns, tunnel.records.number, is_altered=is_altered)
        if refused is not None:
            is_recorded = self._altered is not None and not self._altered[0]
            if is_altered and not is_recorded:
                self._gate.skip_recorded(tunnel.records.number, len(held.raw))
            self._altered = None
            what = f"{refused.by}: {refused.why}"
            self._answer_request(held, now_ns, what, refused.answer, refused.status, is_recorded=is_recorded)
            return
        tunnel.forward(request, now_ns, is_recorded=is_altered)
        self._altered = None  # a head that nobody can read has not reached ``on_request``
        if held.after and not tunnel.is_over:
            self.take_bytes(held.after, now_ns)

    def _cut_connection(self, decision: FaultDecision) -> None:
        """Close the connection, as a rule asks."""
        if not self._tunnel.is_over:
            if decision.rule.action.text == "reset":
                self._tunnel.client.abort()
            self._tunnel.close()

    def close(self) -> None:
        """Record the client's bytes that are not recorded yet, and forget a request at a breakpoint."""
        if self._unrecorded:
            self._tunnel.records.add(journals.CLIENT, time.monotonic_ns(), self._unrecorded)
        if self.held_number:
            self._gate.held.forget(self.held_number)


def _is_stream_cut(applied: AppliedFault, held: HeldRequest) -> bool:
    """Whether the event stream that a GET opens is cut after the delay of a ``disconnect``."""
    action = applied.decision.rule.action
    return action.verb == "disconnect" and action.delay_ns > 0 and held.route.request.method == b"GET"


def _with_content(held: HeldRequest, message: bytes, new: bytes) -> tuple[bytes, bytes, bytes]:
    """Replace ``message`` in a request by ``new``; return the complete request, its head, and ``new``."""
    head, blank, body = held.raw.partition(b"\r\n\r\n")
    head += blank
    if new == message:
        return held.raw, head, new
    if held.route.length == CHUNKED:
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(new), new)
    else:
        head, body = with_length(head, len(new)), new
    return head + body, head, new
