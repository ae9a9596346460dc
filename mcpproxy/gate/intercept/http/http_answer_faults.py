"""What becomes of the answers of a server: what policies say, as steps of a tunnel. No I/O and no clock."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from mcpproxy.gate.intercept.addons.closed_gate import NOT_COMPLETE, TOO_LONG, ClosedGate, Withheld
from mcpproxy.gate.intercept.addons.closed_gate_http import error_head
from mcpproxy.gate.intercept.fault_decisions import FaultDecision
from mcpproxy.gate.intercept.fault_effects import delay_of
from mcpproxy.gate.intercept.http.http_answer_steps import (
    LIMIT_BYTES,
    AnswerStep,
    ChunksOf,
    HeldAnswer,
    coded,
    cut_at,
    given_head,
    given_steps,
    is_pause,
    with_data,
)
from mcpproxy.gate.intercept.http.http_assembly import Assembly
from mcpproxy.gate.intercept.http.http_heads import status_head, with_length
from mcpproxy.gate.intercept.policies import Action, Asked, Instead, MetFault, Passing, Policies
from mcpproxy.judge.session.frame import SERVER, FaultMark, Frame
from mcpproxy.protocol.jsonrpc import Request
from mcpproxy.protocol.raw_json import value_bytes
from mcpproxy.record.framing.bodies import Chunked, Length
from mcpproxy.record.framing.sse import SseBlock

_IN_BODIES: Final = ("duplicate",)
_IN_EVENTS: Final = ("status",)
"""What rules cannot do to the message of a body, or of an event."""


class AnswerFaults:
    """Turns what a server has answered into steps.

    ``mark`` makes the mark of a fault. ``connection`` returns the number of the connection. ``on_endpoint``
    is called with the place to which a server of HTTP+SSE lets clients post, as the server names it, and the
    target of the request.
    """

    def __init__(
        self,
        policies: Policies,
        mark: Callable[[str, str], FaultMark],
        connection: Callable[[], int] = lambda: 0,
        on_endpoint: Callable[[str, str], None] = lambda _named, _target: None,
    ) -> None:
        self._policies = policies
        self.gate: Final[ClosedGate] = policies.gate
        self._on_endpoint = on_endpoint
        self._mark = mark
        self._connection = connection

    # The head

    def altered_head(self, answer: HeldAnswer, sent: bytes, content: bytes = b"") -> list[AnswerStep]:
        """Return the steps for a head that meets a fault, at the beginning of ``sent``; none if it meets
        none. ``content`` is the content of the body after it in ``sent``."""
        decision = answer.expected.decision
        if decision is None:
            return []
        head, fault = given_head(answer), self._mark_of(decision)
        steps = [
            AnswerStep("alter", sent, fault, has_more=True),
            AnswerStep("give", head, fault, head, "head", has_more=bool(content)),
        ]
        if content:
            steps.append(AnswerStep("give", sent[len(answer.head) :], fault, content, "body"))
        return steps

    def passed(self, answer: HeldAnswer, raw: bytes, content: bytes) -> list[AnswerStep]:
        """Return the steps for an answer, complete in ``raw``, of which at most the head meets a fault."""
        if answer.expected.decision is None:
            return [AnswerStep("pass", raw)]
        if not answer.is_stream:
            return self.altered_head(answer, raw, content)
        rest = raw[len(answer.head) :]
        return [*self.altered_head(answer, answer.head), AnswerStep("pass", rest)]

    # What addons that fail closed cannot see

    def refused(self, answer: HeldAnswer, sent: bytes, why: str, error: bytes = b"") -> list[AnswerStep]:
        """Return the steps for an answer whose body does not pass; ``sent`` is what has come of it.

        The client gets its head, with an error as the body: that of ``error``, or for its request.
        """
        fault = self._gate_mark()
        self.gate.say_once(SERVER, why)
        if not error or answer.expected.id:
            error = self.gate.error(answer.expected.id or b"null", why)
        steps = given_steps(fault, error_head(given_head(answer), len(error)), error, error)
        return [AnswerStep("alter", sent, fault, has_more=True), *steps, AnswerStep("end", fault=fault)]

    def refused_stream(self, answer: HeldAnswer, sent: bytes, why: str) -> list[AnswerStep]:
        """Return the steps for an event stream whose rest does not pass; its head has passed."""
        fault = self._gate_mark()
        self.gate.say_once(SERVER, why)
        steps = [AnswerStep("alter", sent, fault, has_more=True)]
        end = b"0\r\n\r\n" if isinstance(answer.body, Chunked) else b""
        if answer.expected.id:
            event = b"data: %b\n\n" % self.gate.error(answer.expected.id, why)
            steps.append(AnswerStep("give", coded(answer.body, event) + end, fault, event, "event"))
        return [*steps, AnswerStep("end", fault=fault)]

    def end(self, sent: bytes) -> list[AnswerStep]:
        """Return the steps that close a connection on which nothing more can be read."""
        fault = self._gate_mark()
        return [AnswerStep("alter", sent, fault), AnswerStep("end", fault=fault)]

    def missing(self, answer: HeldAnswer) -> list[AnswerStep]:
        """Return the steps for a stream at its end, if what was withheld may have been the answer."""
        if not answer.unseen or not answer.expected.id:
            return []
        fault = self._gate_mark()
        event = b"data: %b\n\n" % self.gate.error(answer.expected.id, answer.unseen)
        answer.expected.id = b""
        return [AnswerStep("give", coded(answer.body, event), fault, event, "event")]

    # A body

    def body(self, answer: HeldAnswer, raw: bytes, content: bytes) -> list[AnswerStep] | None:
        """Return the steps for an answer in JSON; ``None`` if it passes."""
        if answer.unseen:
            return self.refused(answer, raw, answer.unseen) if content else None
        passing = self._passing(answer, content, _IN_BODIES, is_gated=answer.expected.is_gated)

        def given_body(fault: FaultMark, head: bytes, new: bytes) -> list[AnswerStep]:
            """Return the steps that give ``new``, in the transfer coding of the answer."""
            if new == content:  # it was only held
                return given_steps(fault, head, raw[len(answer.head) :], new)
            if isinstance(answer.body, Length):
                return given_steps(fault, with_length(head, len(new)), new, new)
            end = b"0\r\n\r\n" if isinstance(answer.body, Chunked) else b""
            return given_steps(fault, head, coded(answer.body, new) + end, new)

        def replaced(instead: Instead | None) -> list[AnswerStep]:
            if instead is None:
                return self.passed(answer, raw, content)
            fault = self._mark(instead.by, instead.how)
            sent = AnswerStep("alter", raw, fault, has_more=True)
            if instead.given is None:
                return [sent, AnswerStep("end", fault=fault)]
            return [sent, *given_body(fault, given_head(answer), instead.given)]

        match self._policies.enter(passing):
            case Withheld() as withheld:
                return self.refused(answer, raw, withheld.why, withheld.given or b"")
            case Instead() as instead:
                return replaced(instead)
            case Asked(hook):
                return [AnswerStep("ask", raw, passing=passing, hook=hook, on_answer=replaced)]
            case MetFault() as met:
                fault = self._mark_of(met.decision)

                def go_on(new: bytes | None) -> list[AnswerStep]:
                    if new is None:
                        return [AnswerStep("end", fault=fault)]
                    return given_body(fault, answer.head, new)

                sent = AnswerStep("alter", raw, fault, has_more=True)
                if met.decision.rule.action.verb == "pause":
                    return [sent, AnswerStep("hold", fault=fault, passing=passing, met=met, go_on=go_on)]
                return [sent, *self._met_body(answer, raw, content, met, fault, given_body)]
            case None:
                return None

    def _met_body(
        self,
        answer: HeldAnswer,
        raw: bytes,
        content: bytes,
        met: MetFault,
        fault: FaultMark,
        given_body: Callable[[FaultMark, bytes, bytes], list[AnswerStep]],
    ) -> Iterator[AnswerStep]:
        """Yield what a rule makes of a body."""
        decision, action, head = met.decision, met.decision.rule.action, answer.head
        new = b"\n".join(data for _, data in met.effect.given)
        if delay_ns := delay_of(decision, len(content)):
            yield AnswerStep("wait", delay_ns=delay_ns)
        match action.verb:
            case "drop" | "disconnect":
                yield AnswerStep("end", fault=fault, is_reset=action.text == "reset")
            case "cut":
                new = content[: cut_at(decision, content)]
                is_sized = isinstance(answer.body, Length)
                begun = raw[len(head) :][: len(new)] if is_sized else coded(answer.body, new)
                yield from given_steps(fault, head, begun, new)
                yield AnswerStep("end", fault=fault)
            case "status":
                head, new = status_head(action)
                yield from given_steps(fault, head, new, new)
                yield AnswerStep("end", fault=fault)
            case _:
                yield from given_body(fault, head, new)

    # Events

    def stream(self, answer: HeldAnswer, raw: bytes, content: bytes) -> list[AnswerStep] | None:
        """Return the steps for an event stream of a known length; ``None`` if it passes."""
        blocks = answer.framer.feed(content, 0)
        self._learn(answer, blocks)
        rest = content[sum(len(block.raw) for block in blocks) :]
        if self.gate.addons and answer.expected.is_gated and rest.strip():
            return self.refused(answer, raw, NOT_COMPLETE)
        asked = [self._enter(answer, block) for block in blocks]
        acted = [action for action, _ in asked if action is not None]
        if not acted:
            return None
        if any(not isinstance(action, MetFault) or is_pause(action) for action in acted):
            return self._assembled(answer, raw, rest, blocks, asked)
        steps: list[AnswerStep] = []
        length = 0
        """The length in the new head: what is given, and what is missing if the connection is cut."""
        for block, (action, passing) in zip(blocks, asked, strict=True):
            met = [*self._event(answer, block, action, passing)]
            steps += met
            given = sum(len(step.data) for step in met if step.kind in ("pass", "give"))
            length += max(given, len(block.raw)) if met[-1].kind == "end" else given
        if rest:
            steps.append(AnswerStep("pass", rest))
            length += len(rest)
        # The exchange ends with the last bytes that the server sent, but not before all is given for them.
        last = max(index for index, step in enumerate(steps) if step.kind in ("pass", "alter"))
        gives = [index for index, step in enumerate(steps) if step.kind == "give" and index > last]
        for index in (last, *gives)[: len(gives)]:
            steps[index] = replace(steps[index], has_more=True)
        fault = next(step.fault for step in steps if step.fault is not None)
        head = with_length(given_head(answer), length)
        if head == answer.head:
            return [AnswerStep("pass", head), *steps]
        new_head = AnswerStep("give", head, fault, head, "head", has_more=True)
        return [AnswerStep("alter", answer.head, fault, has_more=True), new_head, *steps]

    def _assembled(
        self,
        answer: HeldAnswer,
        raw: bytes,
        rest: bytes,
        blocks: list[SseBlock],
        asked: list[tuple[Action | None, Passing]],
    ) -> list[AnswerStep]:
        """Return the steps for a stream of a known length with events that wait for somebody."""

        def unchanged() -> list[AnswerStep]:
            return self.passed(answer, raw, raw[len(answer.head) :])

        def own() -> list[bytes]:
            return [step.content for step in self.missing(answer)]

        gate = self.gate.addons
        return Assembly(answer, raw, blocks, rest, asked, self._mark, gate, unchanged, own).steps()

    def events(
        self, answer: HeldAnswer, raw: bytes, blocks: list[SseBlock], tail: bytes = b""
    ) -> list[AnswerStep] | None:
        """Return the steps for events of a stream, in the bytes ``raw``; ``None`` if they pass.

        ``tail`` is the beginning of an event that never ends, which does not pass.
        """
        self._learn(answer, blocks)
        asked = [self._enter(answer, block) for block in blocks]
        is_missing = answer.body.over and bool(answer.unseen and answer.expected.id)
        if not any(action is not None for action, _ in asked) and not tail and not is_missing:
            return None
        steps = [
            step
            for block, (action, passing) in zip(blocks, asked, strict=True)
            for step in self._event(answer, block, action, passing)
        ]
        if tail:
            steps.append(AnswerStep("alter", coded(answer.body, tail), self._gate_mark()))
        if answer.body.over:
            steps += self.missing(answer)
            if isinstance(answer.body, ChunksOf):
                steps.append(AnswerStep("pass", answer.body.last_chunk(raw)))
        return steps

    def _event(
        self,
        answer: HeldAnswer,
        block: SseBlock,
        action: Action | None,
        passing: Passing,
    ) -> Iterator[AnswerStep]:
        """Yield what becomes of an event."""
        sent = coded(answer.body, block.raw)

        def given(fault: FaultMark, data: bytes) -> AnswerStep:
            event = block.raw if data == block.data else with_data(block, data)
            return AnswerStep("give", coded(answer.body, event), fault, event, "event")

        def replaced(instead: Instead | None) -> list[AnswerStep]:
            if instead is None:
                return [AnswerStep("pass", sent)]
            fault = self._mark(instead.by, instead.how)
            steps = [AnswerStep("alter", sent, fault)]
            return steps if instead.given is None else [*steps, given(fault, instead.given)]

        match action:
            case None:
                yield AnswerStep("pass", sent)
            case Withheld() as withheld:
                by = f"addon {self.gate.addons}"
                yield from replaced(Instead(by, "error", withheld.given))
            case Instead() as instead:
                yield from replaced(instead)
            case Asked(hook):
                yield AnswerStep("ask", sent, passing=passing, hook=hook, on_answer=replaced)
            case MetFault() as met:
                fault = self._mark_of(met.decision)
                yield AnswerStep("alter", sent, fault)
                if not is_pause(met):
                    yield from self._met_event(answer, block, met, fault, given)
                    return

                def go_on(new: bytes | None) -> list[AnswerStep]:
                    return [] if new is None else [given(fault, new)]

                yield AnswerStep("hold", fault=fault, passing=passing, met=met, go_on=go_on)

    def _met_event(
        self,
        answer: HeldAnswer,
        block: SseBlock,
        met: MetFault,
        fault: FaultMark,
        given: Callable[[FaultMark, bytes], AnswerStep],
    ) -> Iterator[AnswerStep]:
        """Yield what a rule makes of an event."""
        decision, action = met.decision, met.decision.rule.action
        if delay_ns := delay_of(decision, len(block.raw)):
            yield AnswerStep("wait", delay_ns=delay_ns)
        if action.verb == "cut":
            begun = block.raw[: cut_at(decision, block.raw)]
            yield AnswerStep("give", coded(answer.body, begun), fault, begun, "event")
        for gap_ns, data in met.effect.given if action.verb != "cut" else ():
            if gap_ns:
                yield AnswerStep("wait", delay_ns=gap_ns)
            yield given(fault, data)
        if action.verb in ("cut", "disconnect"):
            yield AnswerStep("end", fault=fault, is_reset=action.text == "reset")

    # What policies say

    def _enter(self, answer: HeldAnswer, block: SseBlock) -> tuple[Action | None, Passing]:
        """Return what becomes of the message in an event, and the message."""
        is_gated = bool(self.gate.addons) and answer.expected.is_gated
        is_place = _endpoint(block) is not None
        passing = self._passing(answer, block.data or b"", _IN_EVENTS, is_gated=is_gated and not is_place)
        if not block.complete or len(block.raw) > LIMIT_BYTES:
            action: Action | None = self.gate.withhold(SERVER, b"", TOO_LONG) if is_gated else None
        else:
            action = self._policies.enter(passing) if block.data else None
        if is_gated and not is_place and block.data is not None and not isinstance(action, MetFault):
            self._note_told(answer, passing, action)
        return action, passing

    def _note_told(self, answer: HeldAnswer, passing: Passing, action: Action | None) -> None:
        """Take note of whether the request has its answer, or of why it may have none."""
        expected, told = answer.expected, passing.raw
        if isinstance(action, Withheld):
            if action.given is None:
                answer.unseen = action.why
                return
            told = action.given
        is_answer = expected.id and value_bytes(told, ("id",)) == expected.id
        if is_answer and not isinstance(passing.message, Request):
            expected.id = b""

    def _passing(
        self, answer: HeldAnswer, content: bytes, unfit: tuple[str, ...], *, is_gated: bool
    ) -> Passing:
        frame = Frame(0, SERVER, content, connection=self._connection())
        return Passing(frame, answer.expected.session, is_gated=is_gated, unfit=unfit)

    def _learn(self, answer: HeldAnswer, blocks: list[SseBlock]) -> None:
        """Take note of where the clients of a server of HTTP+SSE post to, whatever becomes of the event."""
        for block in blocks if self.gate.addons and answer.expected.is_gated else ():
            if (endpoint := _endpoint(block)) is not None:
                self._on_endpoint(endpoint, answer.expected.target)

    def _gate_mark(self) -> FaultMark:
        return self._mark(f"addon {self.gate.addons}", "error")

    def _mark_of(self, decision: FaultDecision) -> FaultMark:
        return self._mark(decision.rule.name, decision.rule.action.verb)


def _endpoint(block: SseBlock) -> str | None:
    """Return where the clients of a server of HTTP+SSE post to, if an event says it."""
    data = (block.data or b"").strip()
    is_place = block.event == "endpoint" and block.data is not None and data[:1] not in (b"{", b"[")
    return data.decode("utf-8", "surrogateescape") if is_place else None
