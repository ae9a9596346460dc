"""The server side of a tunnel: it holds the server's answers, and applies the policies to them.

A tunnel is a client connection to the proxy, with its connections to the server.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from mcpproxy.gate.intercept.addons.addon_outcomes import AddonOutcome, instead_after
from mcpproxy.gate.intercept.held_messages import Released
from mcpproxy.gate.intercept.http.http_answer_faults import AnswerFaults
from mcpproxy.gate.intercept.http.http_answer_steps import AnswerStep, ExpectedAnswer
from mcpproxy.gate.intercept.http.http_answers import AnswerReader
from mcpproxy.gate.intercept.policies import marked
from mcpproxy.judge.session.frame import SERVER, FaultMark
from mcpproxy.record.relay import journal as journals

if TYPE_CHECKING:
    from mcpproxy.gate.intercept.http.http_gate import HttpGate
    from mcpproxy.record.relay.http.proxy_interface import GatedTunnel


class AnswerSide:
    """Applies the policies to the answers in one tunnel. While an answer waits, the server is not read."""

    def __init__(self, gate: HttpGate, tunnel: GatedTunnel) -> None:
        self._gate, self._tunnel = gate, tunnel
        self._answers = self._new_reader()
        self._steps: deque[AnswerStep] = deque()
        self._waiting: AnswerStep | None = None
        """The step that has to be finished before the next one is done."""
        self._has_ended = False
        """Whether the server has ended, while steps remain to be done."""

    def _new_reader(self) -> AnswerReader:
        gate, records = self._gate, self._tunnel.records
        faults = AnswerFaults(gate.policies, gate.mark, lambda: records.number, gate.paths.add_named)

        def on_bug(fault: Exception) -> None:
            gate.say(f"a fault of mcpproxy, no rule acts on these answers: {type(fault).__name__}: {fault}")

        return AnswerReader(faults, on_bug)

    def expect(self, expected: ExpectedAnswer) -> None:
        """Take note that a request was forwarded, whose answer is now expected."""
        self._answers.expected.append(expected)

    def passes(self, *, is_upgrade: bool) -> bool:
        """Return whether all later bytes of the server pass, as after an upgrade, and so are read no more."""
        self._answers.is_done = self._answers.is_done or is_upgrade
        if self._answers.is_done:
            self._gate.stop_reading_answers(self._tunnel.records.number)
        return self._answers.is_done

    def take_bytes(self, data: bytes, now_ns: int) -> None:
        """Take bytes that the server has sent; no bytes mean that it has ended."""
        if data:
            self._gate.read_answer(data, now_ns, self._tunnel.records.number)
            self._steps += self._answers.feed(data, now_ns)
        else:
            self._steps += self._answers.end()
            self._has_ended = True
        self._run_steps()

    def _run_steps(self) -> None:
        """Do the steps of the answers, until a step has to wait or none is left."""
        tunnel, now_ns = self._tunnel, time.monotonic_ns()
        while self._steps and not tunnel.is_over:
            step = self._steps.popleft()
            match step.kind:
                case "wait":
                    self._gate.proxy.timers.start(step.delay_ns / 1e9, self._suspend(step, list))
                    return
                case "ask":
                    self._ask_addons(step)
                    return
                case "hold":
                    self._hold_message(step, now_ns)
                    return
                case "end":
                    assert step.fault is not None
                    what = f"rule {step.fault.rule}: {step.fault.action}"
                    tunnel.records.note("fault", what, now_ns)
                    self._withhold_rest(step.fault, now_ns)
                    tunnel.finish(is_reset=step.is_reset)
                    return
                case _:
                    self._record_step(step, now_ns)
                    if step.kind != "alter":
                        tunnel.give_down(step.data)
        if self._has_ended and not tunnel.is_over:
            self._has_ended = False
            tunnel.end_upstream()

    def _suspend(self, step: AnswerStep, next_steps: Callable[[], list[AnswerStep]]) -> Callable[[], None]:
        """Let an answer wait, and stop reading the server; return a function that resumes both.

        Unless the connection has ended, it then calls ``next_steps``, which returns the steps that come
        first.
        """
        tunnel, self._waiting = self._tunnel, step
        tunnel.holds_upstream = True
        tunnel.watch()

        def resume() -> None:
            if self._waiting is not step:  # the connection has ended
                return
            self._waiting, tunnel.holds_upstream = None, False
            if not tunnel.is_over:
                self._steps.extendleft(reversed(next_steps()))
                self._run_steps()
                tunnel.watch()

        return resume

    def _hold_message(self, step: AnswerStep, now_ns: int) -> None:
        """Hold a message at a breakpoint."""
        assert step.fault is not None
        assert step.passing is not None
        assert step.applied is not None
        releases: list[Released] = []
        resume = self._suspend(step, lambda: step.on_release(releases[0].given))

        def on_release(released: Released, now_ns: int) -> None:
            del now_ns
            releases.append(released)
            resume()

        self._gate.held.hold(step.fault, step.passing, step.applied.decision, now_ns, on_release)

    def _ask_addons(self, step: AnswerStep) -> None:
        """Ask addons about a message."""
        addons, passing = self._gate.addons, step.passing
        assert addons is not None
        assert passing is not None
        outcomes: list[AddonOutcome] = []
        resume = self._suspend(
            step, lambda: step.on_outcome(instead_after(outcomes[0], passing.raw, passing.message))
        )

        def on_outcome(outcome: AddonOutcome) -> None:
            outcomes.append(outcome)
            resume()

        addons.ask(step.hook, passing.session, SERVER, passing.raw, on_outcome)

    def _record_step(self, step: AnswerStep, now_ns: int) -> None:
        records = self._tunnel.records
        if step.kind == "pass":
            records.add(journals.SERVER, now_ns, step.data)
        elif step.fault is not None and step.kind == "alter":
            part = marked(step.fault, step.data, has_more=step.has_more)
            records.add(journals.SERVER_ALTERED, now_ns, part)
        elif step.fault is not None:
            part = marked(step.fault, step.content, step.part, has_more=step.has_more)
            records.add(journals.SERVER_GIVEN, now_ns, part)

    def _withhold_rest(self, fault: FaultMark, now_ns: int) -> None:
        """Drop the remaining steps; record the server's bytes in them, which ``fault`` withholds."""
        for step in self._steps:
            if step.kind in ("pass", "alter"):
                payload = marked(step.fault or fault, step.data)
                self._tunnel.records.add(journals.SERVER_ALTERED, now_ns, payload)
        self._steps.clear()

    def drop(self) -> None:
        """Record the server's bytes that the client was not given; the server's connection is closed."""
        now_ns, records = time.monotonic_ns(), self._tunnel.records
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self._tunnel.holds_upstream = False
            if waiting.kind == "ask" and waiting.data:
                records.add(journals.SERVER, now_ns, waiting.data)
        for step in self._steps:
            if step.kind in ("pass", "alter"):
                self._record_step(step, now_ns)
        self._steps.clear()
        if held := self._answers.take_held():
            records.add(journals.SERVER, now_ns, held)
        self._answers = self._new_reader()

    def close(self) -> None:
        """Forget the message that a breakpoint holds, if any."""
        if self._waiting is not None and self._waiting.kind == "hold" and self._waiting.fault is not None:
            self._gate.held.forget(self._waiting.fault.number)
