"""The side of a connection on which a server answers: what it says is held, and given as rules say."""

from __future__ import annotations

import json
import time
from collections import deque
from typing import TYPE_CHECKING

from mcpproxy.intercept.held_messages import HeldMessage
from mcpproxy.intercept.http_answer_faults import AnswerFaults
from mcpproxy.intercept.http_answers import AnswerReader
from mcpproxy.intercept.http_enforcing import EnforcingProxy, EnforcingTunnel
from mcpproxy.protocol.jsonrpc import parse
from mcpproxy.relay import journal as journals
from mcpproxy.session.frame import SERVER

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpproxy.intercept.addons.addon_calls import AddonCalls
    from mcpproxy.intercept.addons.addon_outcomes import AddonOutcome
    from mcpproxy.intercept.fault_decisions import FaultDecision
    from mcpproxy.intercept.held_messages import HeldMessages, Released
    from mcpproxy.intercept.http_answer_steps import AnswerStep
    from mcpproxy.intercept.http_enforcer import FaultEnforcer
    from mcpproxy.intercept.live.live_exchanges import LiveExchanges
    from mcpproxy.relay.http.dial import Sock
    from mcpproxy.relay.http.proxy_interface import ProxyInterface
    from mcpproxy.relay.http.socket import TunnelSocket
    from mcpproxy.session.frame import FaultMark


class SharedByTunnels(EnforcingProxy):
    """What the tunnels of a proxy with faults need of it."""

    faults: FaultEnforcer
    held: HeldMessages
    addons: AddonCalls | None
    live: LiveExchanges | None

    def judge_answer(self, data: bytes, at_ns: int, number: int) -> None:
        """Judge bytes of a server that were read, if a breakpoint asks for findings."""
        raise NotImplementedError

    def stop_judging_answers(self, number: int) -> None:
        """Judge what the server of a connection sends when it is recorded, because it passes in any case."""
        raise NotImplementedError


class AnsweringTunnel(EnforcingTunnel):
    """A tunnel whose answers meet faults. While one is held, the server is not read."""

    __slots__ = (
        "_answers",
        "_asked",
        "_ended_upstream",
        "_fault_proxy",
        "_faults",
        "_held_numbers",
        "_is_answer_delayed",
        "_steps",
    )

    def __init__(self, proxy: ProxyInterface, sock: Sock, peer: str) -> None:
        assert isinstance(proxy, SharedByTunnels)
        self._fault_proxy = proxy
        self._faults = proxy.faults
        self._is_answer_delayed = False
        self._held_numbers: set[int] = set()
        self._asked: AnswerStep | None = None  # about which addons are asked
        self._answers = self._new_reader()
        self._steps: deque[AnswerStep] = deque()
        self._ended_upstream: TunnelSocket | None = None  # ended while an answer of it is delayed
        super().__init__(proxy, sock, peer)

    def _new_reader(self) -> AnswerReader:
        faults, live = self._faults, self._fault_proxy.live

        def decide(session: str, content: bytes) -> FaultDecision | None:
            findings = live.found(self._records.number, content) if live is not None else ()
            return faults.decide_answer(session, content, findings)

        answers = AnswerFaults(decide, faults.mark, faults.asks, faults.gate, faults.paths.add_named)
        return AnswerReader(answers, faults.on_bug)

    def _hold(self, held: HeldMessage, go_on: Callable[[Released], None]) -> None:
        self._held_numbers.add(held.mark.number)

        def released(outcome: Released, now_ns: int) -> None:
            del now_ns
            self._held_numbers.discard(held.mark.number)
            go_on(outcome)

        self._fault_proxy.held.hold(held, released)

    def _on_upstream(self, events: int) -> None:
        if self._upgrade is not None:
            self._answers.is_done = True  # the requests after it pass as well
        if self._answers.is_done:
            self._fault_proxy.stop_judging_answers(self._records.number)
            super()._on_upstream(events)
            return
        upstream = self._upstream
        assert upstream is not None
        data = self._read(upstream, events)
        if data is None:
            return
        now = time.monotonic_ns()
        if not data:
            self._steps += self._answers.end()
            self._ended_upstream = upstream
        else:
            self._requests.upstream_reads += 1
            self._fault_proxy.judge_answer(data, now, self._records.number)
            self._steps += self._answers.feed(data, now)
        self._run_steps()

    def _run_steps(self) -> None:
        """Do what is to be done with answers, until one is delayed or all is done."""
        now = time.monotonic_ns()
        while self._steps and not self._is_over:
            step = self._steps.popleft()
            if step.kind == "wait":
                self._is_answer_delayed = True
                self._watch()
                self._proxy.timers.start(step.delay_ns / 1e9, self._go_on)
                return
            if step.kind == "ask":
                self._ask_about_answer(step)
                return
            if step.kind == "hold":
                self._hold_answer(step, now)
                return
            if step.kind == "end":
                assert step.fault is not None
                self._records.note("fault", f"rule {step.fault.rule}: {step.fault.action}", now)
                self._withhold(step.fault, now)
                self._finish(is_reset=step.is_reset)
                return
            self._record_step(step, now)
            if step.kind != "alter":
                self._send_down(self._rewritten(step.data))
        if self._ended_upstream is not None and not self._is_over:
            upstream, self._ended_upstream = self._ended_upstream, None
            self._on_upstream_end(upstream)

    def _hold_answer(self, step: AnswerStep, now: int) -> None:
        """Hold a message of the server at a breakpoint."""
        fault, action, go_on_with = step.fault, step.action, step.go_on
        assert fault is not None
        assert action is not None
        assert go_on_with is not None

        def go_on(released: Released) -> None:
            self._steps.extendleft(reversed(go_on_with(released.given)))
            self._go_on()

        self._is_answer_delayed = True
        self._watch()
        message, until_ns = parse(step.content), now + action.gap_ns
        self._hold(
            HeldMessage(fault, SERVER, step.content, message, now, until_ns, action.text, step.findings),
            go_on,
        )

    def _ask_about_answer(self, step: AnswerStep) -> None:
        """Ask addons about a message of the server."""
        addons, go_on_with = self._fault_proxy.addons, step.answered
        assert addons is not None
        assert go_on_with is not None

        def answered(outcome: AddonOutcome) -> None:
            if self._asked is step:  # otherwise the connection has ended
                self._asked = None
                self._steps.extendleft(reversed(go_on_with(outcome)))
                self._go_on()

        self._asked = step
        self._is_answer_delayed = True
        self._watch()
        addons.ask(step.hook, step.session, SERVER, step.content, answered)

    def _go_on(self) -> None:
        self._is_answer_delayed = False
        if not self._is_over:
            self._run_steps()
            self._watch()

    def _record_step(self, step: AnswerStep, now: int) -> None:
        if step.kind == "pass":
            self._records.add(journals.SERVER, now, step.data)
        elif step.fault is not None and step.kind == "alter":
            self._records.add(
                journals.SERVER_ALTERED, now, marked(step.fault, step.data, has_more=step.has_more)
            )
        elif step.fault is not None:
            part = marked(step.fault, step.content, step.part, has_more=step.has_more)
            self._records.add(journals.SERVER_GIVEN, now, part)

    def _withhold(self, fault: FaultMark, now: int) -> None:
        """Record what the server has sent and the client is not given, because of ``fault``."""
        for step in self._steps:
            if step.kind in ("pass", "alter"):
                self._records.add(journals.SERVER_ALTERED, now, marked(step.fault or fault, step.data))
        self._steps.clear()

    def _finish(self, *, is_reset: bool) -> None:
        """Close both connections after the bytes that wait for the client are sent."""
        if is_reset:
            self._client.abort()
        if self._client.rest is None or is_reset:
            self._close()
            return
        self._drop_upstream()
        self._client.finish()
        self._watch()
        self._close_if_done()

    def _close(self) -> None:
        for number in self._held_numbers:
            self._fault_proxy.held.forget(number)
        super()._close()

    def _drop_upstream(self) -> None:
        if self._upstream is not None:
            now = time.monotonic_ns()
            asked, self._asked = self._asked, None
            if asked is not None:
                self._records.add(journals.SERVER, now, asked.data)
            for step in self._steps:
                if step.kind in ("pass", "alter"):
                    self._record_step(step, now)
            self._steps.clear()
            if held := self._answers.held:
                self._records.add(journals.SERVER, now, held)
        self._answers = self._new_reader()
        super()._drop_upstream()

    def _watch(self) -> None:
        super()._watch()
        if not self._is_over and self._is_answer_delayed and self._upstream is not None:
            self._upstream.watch(False)


def marked(fault: FaultMark, data: bytes, part: str = "", *, has_more: bool = False) -> bytes:
    """Return the payload of a record about a fault."""
    mark: dict[str, object] = {"rule": fault.rule, "action": fault.action, "number": fault.number}
    if part:
        mark["part"] = part
    if has_more:
        mark["more"] = True
    return json.dumps(mark).encode() + b"\n" + data
