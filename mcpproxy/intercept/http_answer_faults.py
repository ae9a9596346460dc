"""What becomes of the answers of a server under fault rules, breakpoints and addons. No I/O and no clock."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from mcpproxy.framing.bodies import Chunked, Length
from mcpproxy.framing.sse import SseBlock
from mcpproxy.intercept.addons.addon_outcomes import AddonOutcome, outcome_of
from mcpproxy.intercept.addons.closed_gate import NOT_COMPLETE, TOO_LONG, ClosedGate, Withheld
from mcpproxy.intercept.addons.closed_gate_http import error_head
from mcpproxy.intercept.fault_decisions import FaultDecision
from mcpproxy.intercept.fault_effects import FaultEffect, delay_of, effect_of
from mcpproxy.intercept.http_answer_steps import (
    LIMIT_BYTES,
    AnswerStep,
    ChunksOf,
    Decide,
    HeldAnswer,
    coded,
    given_steps,
    with_data,
)
from mcpproxy.intercept.http_heads import new_head, status_head, with_length
from mcpproxy.protocol.jsonrpc import Message, Request, parse
from mcpproxy.protocol.raw_json import value_bytes
from mcpproxy.session.frame import SERVER, FaultMark


class AnswerFaults:
    """Turns what a server has answered into steps.

    ``mark`` makes the mark of a fault. ``asks`` returns the hook of the addons for a message, if any.
    ``gate`` withholds what they cannot be asked about. ``on_endpoint`` is called with the place to which a
    server of HTTP+SSE lets clients post, as the server names it, and the target of the request.
    """

    def __init__(
        self,
        decide: Decide,
        mark: Callable[[str, str], FaultMark],
        asks: Callable[[Message], str | None] = lambda _: None,
        gate: ClosedGate | None = None,
        on_endpoint: Callable[[str, str], None] = lambda _named, _target: None,
    ) -> None:
        self.gate: Final = gate or ClosedGate()
        self._on_endpoint = on_endpoint
        self._decide = decide
        self._mark = mark
        self._asks = asks

    def altered_head(self, answer: HeldAnswer, sent: bytes, content: bytes = b"") -> list[AnswerStep]:
        """Return the steps for a head that meets a fault, at the beginning of ``sent``; none if it meets
        none. ``content`` is the content of the body after it in ``sent``."""
        decision = answer.expected.decision
        if decision is None:
            return []
        head, fault = _given_head(answer), self.mark_of(decision)
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

    def refused(self, answer: HeldAnswer, sent: bytes, why: str, error: bytes = b"") -> list[AnswerStep]:
        """Return the steps for an answer whose body does not pass; ``sent`` is what has come of it.

        The client gets its head, with an error as the body: that of ``error``, or for its request.
        """
        fault = self._mark(f"addon {self.gate.addons}", "error")
        self.gate.say_once(SERVER, why)
        if not error or answer.expected.id:
            error = self.gate.error(answer.expected.id or b"null", why)
        steps = given_steps(fault, error_head(_given_head(answer), len(error)), error, error)
        return [AnswerStep("alter", sent, fault, has_more=True), *steps, AnswerStep("end", fault=fault)]

    def refused_stream(self, answer: HeldAnswer, sent: bytes, why: str) -> list[AnswerStep]:
        """Return the steps for an event stream whose rest does not pass; its head has passed."""
        fault = self._mark(f"addon {self.gate.addons}", "error")
        self.gate.say_once(SERVER, why)
        steps = [AnswerStep("alter", sent, fault, has_more=True)]
        end = b"0\r\n\r\n" if isinstance(answer.body, Chunked) else b""
        if answer.expected.id:
            event = b"data: %b\n\n" % self.gate.error(answer.expected.id, why)
            steps.append(AnswerStep("give", coded(answer.body, event) + end, fault, event, "event"))
        return [*steps, AnswerStep("end", fault=fault)]

    def end(self, sent: bytes) -> list[AnswerStep]:
        """Return the steps that close a connection on which nothing more can be read."""
        fault = self._mark(f"addon {self.gate.addons}", "error")
        return [AnswerStep("alter", sent, fault), AnswerStep("end", fault=fault)]

    def body(self, answer: HeldAnswer, raw: bytes, content: bytes) -> list[AnswerStep] | None:
        """Return the steps for an answer in JSON; ``None`` if it passes."""
        if answer.unseen:
            return self.refused(answer, raw, answer.unseen) if content else None
        message = parse(content)
        decision = self._decide(answer.expected.session, content)
        effect = effect_of(decision, content, message) if decision else None
        head = answer.head

        def given_body(fault: FaultMark, head: bytes, new: bytes) -> list[AnswerStep]:
            """Return the steps that give ``new``, in the transfer coding of the answer."""
            if new == content:  # it was only held
                return given_steps(fault, head, raw[len(answer.head) :], new)
            if isinstance(answer.body, Length):
                return given_steps(fault, with_length(head, len(new)), new, new)
            end = b"0\r\n\r\n" if isinstance(answer.body, Chunked) else b""
            return given_steps(fault, head, coded(answer.body, new) + end, new)

        acts = decision is not None and effect is not None and decision.rule.action.verb != "duplicate"
        if not acts and answer.expected.is_gated:
            withheld = self.gate.withheld(SERVER, content, message)
            if withheld is not None:
                return self.refused(answer, raw, withheld.why, withheld.given or b"")
        if not acts and (hook := self._asks(message)):

            def answered(outcome: AddonOutcome) -> list[AnswerStep]:
                given, _ = outcome_of(outcome, content, message)
                if given == content:
                    return self.passed(answer, raw, content)
                fault = self._mark(f"addon {outcome.addon}", outcome.how)
                sent = AnswerStep("alter", raw, fault, has_more=True)
                if given is None:
                    return [sent, AnswerStep("end", fault=fault)]
                return [sent, *given_body(fault, _given_head(answer), given)]

            return [self._ask(answer, hook, raw, content, answered)]
        if decision is None or effect is None or decision.rule.action.verb == "duplicate":
            return None
        action, fault = decision.rule.action, self.mark_of(decision)
        new = b"\n".join(data for _, data in effect.given)
        steps = [AnswerStep("alter", raw, fault, has_more=True)]
        if action.verb == "pause":

            def go_on(new: bytes | None) -> list[AnswerStep]:
                return [AnswerStep("end", fault=fault)] if new is None else given_body(fault, head, new)

            findings = decision.findings
            hold = AnswerStep(
                "hold", fault=fault, content=content, action=action, findings=findings, go_on=go_on
            )
            return [*steps, hold]
        if delay_ns := delay_of(decision, len(content)):
            steps.append(AnswerStep("wait", delay_ns=delay_ns))
        if action.verb in ("drop", "disconnect"):
            return [*steps, AnswerStep("end", fault=fault, is_reset=action.text == "reset")]
        if action.verb == "cut":
            new = content[: _cut(decision, content)]
            is_sized = isinstance(answer.body, Length)
            begun = raw[len(head) :][: len(new)] if is_sized else coded(answer.body, new)
            steps += given_steps(fault, head, begun, new)
        elif action.verb == "status":
            head, new = status_head(action)
            steps += given_steps(fault, head, new, new)
        else:
            return [*steps, *given_body(fault, head, new)]
        return [*steps, AnswerStep("end", fault=fault)]

    def stream(self, answer: HeldAnswer, raw: bytes, content: bytes) -> list[AnswerStep] | None:
        """Return the steps for an event stream of a known length; ``None`` if it passes."""
        blocks = answer.framer.feed(content, 0)
        self._learn(answer, blocks)
        decided = [self._decided(answer, block) for block in blocks]
        end = content[sum(len(block.raw) for block in blocks) :]
        if self.gate.addons and answer.expected.is_gated:
            if end.strip():
                return self.refused(answer, raw, NOT_COMPLETE)
            id = answer.expected.id
            if any(decided) and any(self._hook(block) or self._withheld(answer, block) for block in blocks):
                answer.expected.id = id  # nothing of it passes, not even the answer
                return self.refused(answer, raw, "a fault rule acts on another event of the same body")
        if any(met is not None and met[0].rule.action.verb == "pause" for met in decided):
            return self._held_stream(answer, raw, blocks, decided)
        steps: list[AnswerStep] = []
        length = 0
        """The length in the new head: what is given, and what is missing if the connection is cut."""
        for block, decision in zip(blocks, decided, strict=True):
            met = (
                [AnswerStep("pass", block.raw)]
                if decision is None
                else [*self._event(answer, block, *decision)]
            )
            steps += met
            given = sum(len(step.data) for step in met if step.kind in ("pass", "give"))
            length += max(given, len(block.raw)) if met[-1].kind == "end" else given
        if not any(decided):
            hooks = [self._withheld(answer, block) or self._hook(block) for block in blocks]
            if any(hooks):
                return self._asked_stream(answer, raw, content, blocks, hooks)
            return None
        if rest := content[sum(len(block.raw) for block in blocks) :]:
            steps.append(AnswerStep("pass", rest))
            length += len(rest)
        # The exchange ends with the last bytes that the server sent, but not before all is given for them.
        last = max(index for index, step in enumerate(steps) if step.kind in ("pass", "alter"))
        gives = [index for index, step in enumerate(steps) if step.kind == "give" and index > last]
        for index in (last, *gives)[: len(gives)]:
            steps[index] = replace(steps[index], has_more=True)
        fault = next(step.fault for step in steps if step.fault is not None)
        head = with_length(_given_head(answer), length)
        if head == answer.head:
            return [AnswerStep("pass", head), *steps]
        given_head = AnswerStep("give", head, fault, head, "head", has_more=True)
        return [AnswerStep("alter", answer.head, fault, has_more=True), given_head, *steps]

    def _asked_stream(
        self,
        answer: HeldAnswer,
        raw: bytes,
        content: bytes,
        blocks: list[SseBlock],
        hooks: "list[Withheld | str | None]",
    ) -> list[AnswerStep]:
        """Return the steps for a stream of a known length about whose events addons are asked."""
        events: list[bytes | None] = [block.raw for block in blocks]
        rest = content[sum(len(block.raw) for block in blocks) :]
        asked = [(index, hook) for index, hook in enumerate(hooks) if hook is not None]
        marks: list[FaultMark] = []

        def ask_next() -> list[AnswerStep]:
            if asked:
                index, hook = asked.pop(0)
                data = blocks[index].data or b""
                if isinstance(hook, Withheld):
                    marks.append(self._mark(f"addon {self.gate.addons}", "error"))
                    events[index] = None if hook.given is None else with_data(blocks[index], hook.given)
                    return ask_next()

                def answered(outcome: AddonOutcome) -> list[AnswerStep]:
                    given, _ = outcome_of(outcome, data, parse(data))
                    if given != data:
                        marks.append(self._mark(f"addon {outcome.addon}", outcome.how))
                        events[index] = None if given is None else with_data(blocks[index], given)
                    return ask_next()

                return [self._ask(answer, hook, raw, data, answered)]
            if not marks:
                return self.passed(answer, raw, content)
            given = [
                event for event in (*events, rest, *(step.content for step in self.missing(answer))) if event
            ]
            head = with_length(_given_head(answer), sum(map(len, given)))
            steps = [AnswerStep("alter", raw, marks[0], has_more=True)]
            steps.append(AnswerStep("give", head, marks[0], head, "head", has_more=True))
            steps += [AnswerStep("give", event, marks[0], event, "event", has_more=True) for event in given]
            return [*steps[:-1], replace(steps[-1], has_more=False)]

        return ask_next()

    def _ask(
        self,
        answer: HeldAnswer,
        hook: str,
        data: bytes,
        content: bytes,
        answered: "Callable[[AddonOutcome], list[AnswerStep]]",
    ) -> AnswerStep:
        session = answer.expected.session
        return AnswerStep("ask", data, content=content, hook=hook, session=session, answered=answered)

    def _hook(self, block: SseBlock) -> str | None:
        """Return the hook of the addons for the message in an event, if they have it."""
        is_asked = block.data is not None and block.complete and len(block.raw) <= LIMIT_BYTES
        return self._asks(parse(block.data or b"")) if is_asked else None

    def _withheld(self, answer: HeldAnswer, block: SseBlock) -> Withheld | None:
        """Return what becomes of an event that does not pass a gate that fails closed."""
        if not self.gate.addons or not answer.expected.is_gated:
            return None
        if not block.complete or len(block.raw) > LIMIT_BYTES:
            return self.gate.withhold(SERVER, b"", TOO_LONG)
        if block.data is None:
            return None
        if _endpoint(block) is not None:
            return None
        message, expected = parse(block.data), answer.expected
        withheld = self.gate.withheld(SERVER, block.data, message)
        told = block.data if withheld is None else withheld.given
        if told is None:
            answer.unseen = withheld.why if withheld is not None else ""
        elif expected.id and value_bytes(told, ("id",)) == expected.id and not isinstance(message, Request):
            expected.id = b""  # the request has its answer
        return withheld

    def _learn(self, answer: HeldAnswer, blocks: list[SseBlock]) -> None:
        """Take note of where the clients of a server of HTTP+SSE post to, whatever becomes of the event."""
        for block in blocks if self.gate.addons and answer.expected.is_gated else ():
            if (endpoint := _endpoint(block)) is not None:
                self._on_endpoint(endpoint, answer.expected.target)

    def missing(self, answer: HeldAnswer) -> list[AnswerStep]:
        """Return the steps for a stream at its end, if what was withheld may have been the answer."""
        if not answer.unseen or not answer.expected.id:
            return []
        fault = self._mark(f"addon {self.gate.addons}", "error")
        event = b"data: %b\n\n" % self.gate.error(answer.expected.id, answer.unseen)
        answer.expected.id = b""
        return [AnswerStep("give", coded(answer.body, event), fault, event, "event")]

    def _held_stream(
        self,
        answer: HeldAnswer,
        raw: bytes,
        blocks: list[SseBlock],
        decided: "list[tuple[FaultDecision, FaultEffect] | None]",
    ) -> list[AnswerStep]:
        """Return the steps for a stream of a known length in which breakpoints hold events.

        All of it waits until the last of them is released, because only then its length is known.
        """
        held = [
            (index, met[0], self.mark_of(met[0]))
            for index, met in enumerate(decided)
            if met is not None and met[0].rule.action.verb == "pause"
        ]
        fault = held[0][2]
        events: dict[int, list[bytes]] = {
            index: [block.raw] if met is None else [with_data(block, data) for _, data in met[1].given]
            for index, (block, met) in enumerate(zip(blocks, decided, strict=True))
        }

        def hold_next() -> list[AnswerStep]:
            if not held:
                given = [event for index in range(len(blocks)) for event in events[index]]
                head = with_length(answer.head, sum(map(len, given)))
                steps = [AnswerStep("give", head, fault, head, "head", has_more=True)]
                steps += [AnswerStep("give", event, fault, event, "event", has_more=True) for event in given]
                return [*steps[:-1], replace(steps[-1], has_more=False)]
            index, decision, mark = held.pop(0)
            block = blocks[index]

            def go_on(new: bytes | None) -> list[AnswerStep]:
                if new != block.data:
                    events[index] = [] if new is None else [with_data(block, new)]
                return hold_next()

            return [_hold(mark, block, decision, go_on)]

        return [AnswerStep("alter", raw, fault, has_more=True), *hold_next()]

    def events(
        self, answer: HeldAnswer, raw: bytes, blocks: list[SseBlock], tail: bytes = b""
    ) -> list[AnswerStep] | None:
        """Return the steps for events of a stream, in the bytes ``raw``; ``None`` if they pass.

        ``tail`` is the beginning of an event that never ends, which does not pass.
        """
        self._learn(answer, blocks)
        decided = [self._decided(answer, block) for block in blocks]
        withheld = [
            self._withheld(answer, block) if met is None else None
            for block, met in zip(blocks, decided, strict=True)
        ]
        is_missing = answer.body.over and bool(answer.unseen and answer.expected.id)
        if not (any(decided) or any(withheld) or any(map(self._hook, blocks)) or tail or is_missing):
            return None
        steps: list[AnswerStep] = []
        for block, decision, unseen in zip(blocks, decided, withheld, strict=True):
            if unseen is not None:
                fault = self._mark(f"addon {self.gate.addons}", "error")
                steps.append(AnswerStep("alter", coded(answer.body, block.raw), fault))
                if unseen.given is not None:
                    event = with_data(block, unseen.given)
                    steps.append(AnswerStep("give", coded(answer.body, event), fault, event, "event"))
            elif decision is None and (hook := self._hook(block)):
                steps.append(self._asked_event(answer, hook, block))
            elif decision is None:
                steps.append(AnswerStep("pass", coded(answer.body, block.raw)))
            else:
                steps += self._event(answer, block, *decision)
        if tail:
            fault = self._mark(f"addon {self.gate.addons}", "error")
            steps.append(AnswerStep("alter", coded(answer.body, tail), fault))
        if answer.body.over:
            steps += self.missing(answer)
            if isinstance(answer.body, ChunksOf):
                steps.append(AnswerStep("pass", answer.body.last_chunk(raw)))
        return steps

    def _asked_event(self, answer: HeldAnswer, hook: str, block: SseBlock) -> AnswerStep:
        sent, data = coded(answer.body, block.raw), block.data or b""

        def answered(outcome: AddonOutcome) -> list[AnswerStep]:
            given, _ = outcome_of(outcome, data, parse(data))
            if given == data:
                return [AnswerStep("pass", sent)]
            fault = self._mark(f"addon {outcome.addon}", outcome.how)
            withheld = AnswerStep("alter", sent, fault)
            if given is None:
                return [withheld]
            event = with_data(block, given)
            return [withheld, AnswerStep("give", coded(answer.body, event), fault, event, "event")]

        return self._ask(answer, hook, sent, data, answered)

    def _decided(self, answer: HeldAnswer, block: SseBlock) -> tuple[FaultDecision, FaultEffect] | None:
        if not block.data or len(block.raw) > LIMIT_BYTES:
            return None
        decision = self._decide(answer.expected.session, block.data)
        effect = effect_of(decision, block.data, parse(block.data)) if decision else None
        if decision is None or effect is None or decision.rule.action.verb == "status":
            return None
        return decision, effect

    def _event(
        self, answer: HeldAnswer, block: SseBlock, decision: FaultDecision, effect: FaultEffect
    ) -> Iterator[AnswerStep]:
        action, fault = decision.rule.action, self.mark_of(decision)
        yield AnswerStep("alter", coded(answer.body, block.raw), fault)
        if action.verb == "pause":

            def go_on(new: bytes | None) -> list[AnswerStep]:
                event = block.raw if new == block.data else with_data(block, new or b"")
                given = AnswerStep("give", coded(answer.body, event), fault, event, "event")
                return [] if new is None else [given]

            yield _hold(fault, block, decision, go_on)
            return
        if delay_ns := delay_of(decision, len(block.raw)):
            yield AnswerStep("wait", delay_ns=delay_ns)
        if action.verb == "cut":
            begun = block.raw[: _cut(decision, block.raw)]
            yield AnswerStep("give", coded(answer.body, begun), fault, begun, "event")
        for gap_ns, data in effect.given if action.verb != "cut" else ():
            if gap_ns:
                yield AnswerStep("wait", delay_ns=gap_ns)
            event = block.raw if data == block.data else with_data(block, data)
            yield AnswerStep("give", coded(answer.body, event), fault, event, "event")
        if action.verb in ("cut", "disconnect"):
            yield AnswerStep("end", fault=fault, is_reset=action.text == "reset")

    def mark_of(self, decision: FaultDecision) -> FaultMark:
        return self._mark(decision.rule.name, decision.rule.action.verb)


def _given_head(answer: HeldAnswer) -> bytes:
    """Return the head of an answer as a rule about heads makes it."""
    decision = answer.expected.decision
    return new_head(decision.rule.action, answer.head) if decision else answer.head


def _endpoint(block: SseBlock) -> str | None:
    """Return where the clients of a server of HTTP+SSE post to, if an event says it."""
    data = (block.data or b"").strip()
    is_place = block.event == "endpoint" and block.data is not None and data[:1] not in (b"{", b"[")
    return data.decode("utf-8", "surrogateescape") if is_place else None


def _cut(decision: FaultDecision, raw: bytes) -> int:
    """Return how many bytes are left of what is cut: as many as the rule says, or half of them."""
    return min(decision.rule.action.count or len(raw) // 2, len(raw) - 1)


def _hold(
    fault: FaultMark,
    block: SseBlock,
    decision: FaultDecision,
    go_on: Callable[[bytes | None], list[AnswerStep]],
) -> AnswerStep:
    action, findings = decision.rule.action, decision.findings
    content = block.data or b""
    return AnswerStep("hold", fault=fault, content=content, action=action, findings=findings, go_on=go_on)
