"""Apply the policies to the answers of a server: which steps a tunnel has to take. No I/O and no clock.

A tunnel is a client connection to the proxy, with its connections to the server.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from mcpproxy.gate.intercept.addons.closed_gate import (
    LIMIT_BYTES,
    NOT_COMPLETE,
    TOO_LONG,
    ClosedGate,
    Withheld,
)
from mcpproxy.gate.intercept.addons.closed_gate_http import error_head
from mcpproxy.gate.intercept.fault_decisions import FaultDecision
from mcpproxy.gate.intercept.http.http_answer_steps import (
    AnswerStep,
    ChunksOf,
    HeldAnswer,
    coded,
    cut_at,
    given_head,
    given_steps,
    with_data,
)
from mcpproxy.gate.intercept.http.http_assembly import Assembly
from mcpproxy.gate.intercept.http.http_heads import status_head, with_length
from mcpproxy.gate.intercept.policies import Action, AppliedFault, Asked, Instead, Passing, Policies
from mcpproxy.judge.session.frame import SERVER, FaultMark, Frame
from mcpproxy.protocol.jsonrpc import Request
from mcpproxy.protocol.raw_json import value_bytes
from mcpproxy.record.framing.bodies import Chunked, Length
from mcpproxy.record.framing.sse import SseBlock

_UNFIT_FOR_BODIES: Final = ("duplicate",)
"""The verbs that cannot act on a message that is a whole body."""
_UNFIT_FOR_EVENTS: Final = ("status",)
"""The verbs that cannot act on a message in an event."""


class AnswerFaults:
    """Turns the answers of a server into steps.

    In its methods, ``raw`` and ``sent`` are bytes as the server sent them, and ``content`` is the content of
    a body without its transfer coding.

    ``mark(rule, action)`` makes the mark by which the recording names a fault. ``connection`` returns the
    number of the connection. ``on_endpoint`` is called, if an addon fails closed, when a server of the
    HTTP+SSE transport names the URL to which clients post, with that URL as the server names it, and the
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
        """Return the steps for a head that a fault changes; none if the head stays.

        ``sent`` begins with the head; ``content`` is the content of the body after it.
        """
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
        """Return the steps for an answer, complete in ``raw``, whose body passes; its head may change."""
        if answer.expected.decision is None:
            return [AnswerStep("pass", raw)]
        if not answer.is_stream:
            return self.altered_head(answer, raw, content)
        rest = raw[len(answer.head) :]
        return [*self.altered_head(answer, answer.head), AnswerStep("pass", rest)]

    # Answers that addons that fail closed cannot see

    def refused(self, answer: HeldAnswer, sent: bytes, why: str, error: bytes = b"") -> list[AnswerStep]:
        """Return the steps for an answer whose body does not pass, because of ``why``.

        ``sent`` is what has arrived of it. The client gets the head, with an error for the expected id
        as the body. If no id is expected, the body is ``error``, or an error for ``null``.
        """
        fault = self._gate_mark()
        self.gate.say_once(SERVER, why)
        if not error or answer.expected.id:
            error = self.gate.error(answer.expected.id or b"null", why)
        steps = given_steps(fault, error_head(given_head(answer), len(error)), error, error)
        return [AnswerStep("alter", sent, fault, has_more=True), *steps, AnswerStep("end", fault=fault)]

    def refused_stream(self, answer: HeldAnswer, sent: bytes, why: str) -> list[AnswerStep]:
        """Return the steps for an event stream whose head has passed, and whose rest does not, because of
        ``why``.
        """
        fault = self._gate_mark()
        self.gate.say_once(SERVER, why)
        steps = [AnswerStep("alter", sent, fault, has_more=True)]
        end = b"0\r\n\r\n" if isinstance(answer.body, Chunked) else b""
        if answer.expected.id:
            event = b"data: %b\n\n" % self.gate.error(answer.expected.id, why)
            steps.append(AnswerStep("give", coded(answer.body, event) + end, fault, event, "event"))
        return [*steps, AnswerStep("end", fault=fault)]

    def end(self, sent: bytes) -> list[AnswerStep]:
        """Return the steps that close a connection whose bytes cannot be read any more."""
        fault = self._gate_mark()
        return [AnswerStep("alter", sent, fault), AnswerStep("end", fault=fault)]

    def missing(self, answer: HeldAnswer) -> list[AnswerStep]:
        """Return the step that gives an error for a withheld answer at the end of a stream, if one is due.

        There is none if nothing was withheld, or if the expected answer has come.
        """
        if not answer.unseen or not answer.expected.id:
            return []
        fault = self._gate_mark()
        event = b"data: %b\n\n" % self.gate.error(answer.expected.id, answer.unseen)
        answer.expected.id = b""
        return [AnswerStep("give", coded(answer.body, event), fault, event, "event")]

    # A body

    def body(self, answer: HeldAnswer, raw: bytes, content: bytes) -> list[AnswerStep] | None:
        """Return the steps for an answer that is held whole and is no event stream; ``None`` if it passes."""
        if answer.unseen:
            return self.refused(answer, raw, answer.unseen) if content else None
        passing = self._passing(answer, content, _UNFIT_FOR_BODIES, is_gated=answer.expected.is_gated)

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
                return [AnswerStep("ask", raw, passing=passing, hook=hook, on_outcome=replaced)]
            case AppliedFault() as applied:
                fault = self._mark_of(applied.decision)

                def on_release(new: bytes | None) -> list[AnswerStep]:
                    if new is None:
                        return [AnswerStep("end", fault=fault)]
                    return given_body(fault, answer.head, new)

                sent = AnswerStep("alter", raw, fault, has_more=True)
                if applied.is_breakpoint:
                    return [
                        sent,
                        AnswerStep(
                            "hold", fault=fault, passing=passing, applied=applied, on_release=on_release
                        ),
                    ]
                return [sent, *self._apply_to_body(answer, raw, content, applied, fault, given_body)]
            case None:
                return None

    def _apply_to_body(
        self,
        answer: HeldAnswer,
        raw: bytes,
        content: bytes,
        applied: AppliedFault,
        fault: FaultMark,
        given_body: Callable[[FaultMark, bytes, bytes], list[AnswerStep]],
    ) -> Iterator[AnswerStep]:
        """Yield the steps for a body on which a fault rule acts."""
        decision, action, head = applied.decision, applied.decision.rule.action, answer.head
        new = b"\n".join(data for _, data in applied.effect.given)
        if decision.delay_ns:
            yield AnswerStep("wait", delay_ns=decision.delay_ns)
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
        self._report_endpoint(answer, blocks)
        rest = content[sum(len(block.raw) for block in blocks) :]
        if self.gate.addons and answer.expected.is_gated and rest.strip():
            return self.refused(answer, raw, NOT_COMPLETE)
        decisions = [self._enter(answer, block) for block in blocks]
        actions = [action for action, _ in decisions if action is not None]
        if not actions:
            return None
        if any(not isinstance(action, AppliedFault) or action.is_breakpoint for action in actions):
            return self._assembled(answer, raw, rest, blocks, decisions)
        steps: list[AnswerStep] = []
        # The length in the new head. If the connection is cut, it includes what is missing.
        length = 0
        for block, (action, passing) in zip(blocks, decisions, strict=True):
            event_steps = [*self._event_steps(answer, block, action, passing)]
            steps += event_steps
            given = sum(len(step.data) for step in event_steps if step.kind in ("pass", "give"))
            length += max(given, len(block.raw)) if event_steps[-1].kind == "end" else given
        if rest:
            steps.append(AnswerStep("pass", rest))
            length += len(rest)
        # The exchange ends at the record of the server's last bytes, unless that is marked ``has_more``. So
        # it is marked if something is given after it.
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
        decisions: list[tuple[Action | None, Passing]],
    ) -> list[AnswerStep]:
        """Return the steps for a stream of a known length with events that wait for a decision."""

        def unchanged() -> list[AnswerStep]:
            return self.passed(answer, raw, raw[len(answer.head) :])

        def own() -> list[bytes]:
            return [step.content for step in self.missing(answer)]

        gate = self.gate.addons
        return Assembly(answer, raw, blocks, rest, decisions, self._mark, gate, unchanged, own).steps()

    def events(
        self, answer: HeldAnswer, raw: bytes, blocks: list[SseBlock], tail: bytes = b""
    ) -> list[AnswerStep] | None:
        """Return the steps for events of a stream, in the bytes ``raw``; ``None`` if they pass.

        ``tail`` is the beginning of an event that is never completed; it does not pass.
        """
        self._report_endpoint(answer, blocks)
        decisions = [self._enter(answer, block) for block in blocks]
        is_missing = answer.body.over and bool(answer.unseen and answer.expected.id)
        if not any(action is not None for action, _ in decisions) and not tail and not is_missing:
            return None
        steps = [
            step
            for block, (action, passing) in zip(blocks, decisions, strict=True)
            for step in self._event_steps(answer, block, action, passing)
        ]
        if tail:
            steps.append(AnswerStep("alter", coded(answer.body, tail), self._gate_mark()))
        if answer.body.over:
            steps += self.missing(answer)
            if isinstance(answer.body, ChunksOf):
                steps.append(AnswerStep("pass", answer.body.last_chunk(raw)))
        return steps

    def _event_steps(
        self,
        answer: HeldAnswer,
        block: SseBlock,
        action: Action | None,
        passing: Passing,
    ) -> Iterator[AnswerStep]:
        """Yield the steps for an event on which ``action`` acts; if it is ``None``, the event passes."""
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
                yield AnswerStep("ask", sent, passing=passing, hook=hook, on_outcome=replaced)
            case AppliedFault() as applied:
                fault = self._mark_of(applied.decision)
                yield AnswerStep("alter", sent, fault)
                if not applied.is_breakpoint:
                    yield from self._apply_to_event(answer, block, applied, fault, given)
                    return

                def on_release(new: bytes | None) -> list[AnswerStep]:
                    return [] if new is None else [given(fault, new)]

                yield AnswerStep("hold", fault=fault, passing=passing, applied=applied, on_release=on_release)

    def _apply_to_event(
        self,
        answer: HeldAnswer,
        block: SseBlock,
        applied: AppliedFault,
        fault: FaultMark,
        given: Callable[[FaultMark, bytes], AnswerStep],
    ) -> Iterator[AnswerStep]:
        """Yield the steps for an event on which a fault rule acts."""
        decision, action = applied.decision, applied.decision.rule.action
        if decision.delay_ns:
            yield AnswerStep("wait", delay_ns=decision.delay_ns)
        if action.verb == "cut":
            begun = block.raw[: cut_at(decision, block.raw)]
            yield AnswerStep("give", coded(answer.body, begun), fault, begun, "event")
        for gap_ns, data in applied.effect.given if action.verb != "cut" else ():
            if gap_ns:
                yield AnswerStep("wait", delay_ns=gap_ns)
            yield given(fault, data)
        if action.verb in ("cut", "disconnect"):
            yield AnswerStep("end", fault=fault, is_reset=action.text == "reset")

    # Decisions of policies

    def _enter(self, answer: HeldAnswer, block: SseBlock) -> tuple[Action | None, Passing]:
        """Return the policies' action for the message in an event, and the message."""
        is_gated = bool(self.gate.addons) and answer.expected.is_gated
        names_endpoint = _endpoint(block) is not None
        passing = self._passing(
            answer, block.data or b"", _UNFIT_FOR_EVENTS, is_gated=is_gated and not names_endpoint
        )
        if not block.complete or len(block.raw) > LIMIT_BYTES:
            action: Action | None = self.gate.withhold(SERVER, b"", TOO_LONG) if is_gated else None
        else:
            action = self._policies.enter(passing) if block.data else None
        if (
            is_gated
            and not names_endpoint
            and block.data is not None
            and not isinstance(action, AppliedFault)
        ):
            self._note_answered(answer, passing, action)
        return action, passing

    def _note_answered(self, answer: HeldAnswer, passing: Passing, action: Action | None) -> None:
        """Take note that a message answers the expected request, or why the answer may have been withheld."""
        expected, given = answer.expected, passing.raw
        if isinstance(action, Withheld):
            if action.given is None:
                answer.unseen = action.why
                return
            given = action.given
        is_answer = expected.id and value_bytes(given, ("id",)) == expected.id
        if is_answer and not isinstance(passing.message, Request):
            expected.id = b""

    def _passing(
        self, answer: HeldAnswer, content: bytes, unfit: tuple[str, ...], *, is_gated: bool
    ) -> Passing:
        frame = Frame(0, SERVER, content, connection=self._connection())
        return Passing(frame, answer.expected.session, is_gated=is_gated, unfit=unfit)

    def _report_endpoint(self, answer: HeldAnswer, blocks: list[SseBlock]) -> None:
        """Report the URL to which clients of an HTTP+SSE server post, if an addon that fails closed needs it.

        It is reported even if the event does not pass.
        """
        for block in blocks if self.gate.addons and answer.expected.is_gated else ():
            if (endpoint := _endpoint(block)) is not None:
                self._on_endpoint(endpoint, answer.expected.target)

    def _gate_mark(self) -> FaultMark:
        return self._mark(f"addon {self.gate.addons}", "error")

    def _mark_of(self, decision: FaultDecision) -> FaultMark:
        return self._mark(decision.rule.name, decision.rule.action.verb)


def _endpoint(block: SseBlock) -> str | None:
    """Return the URL to which clients of an HTTP+SSE server post; ``None`` if the event does not name it."""
    data = (block.data or b"").strip()
    names_endpoint = block.event == "endpoint" and block.data is not None and data[:1] not in (b"{", b"[")
    return data.decode("utf-8", "surrogateescape") if names_endpoint else None
