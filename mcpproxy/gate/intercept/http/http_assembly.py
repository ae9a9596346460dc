"""Rebuild an event stream of a known length whose events wait for a decision. No I/O and no clock."""

from collections.abc import Callable
from dataclasses import replace

from mcpproxy.gate.intercept.addons.closed_gate import Withheld
from mcpproxy.gate.intercept.http.http_answer_steps import (
    AnswerStep,
    HeldAnswer,
    cut_at,
    given_head,
    with_data,
)
from mcpproxy.gate.intercept.http.http_heads import with_length
from mcpproxy.gate.intercept.policies import Action, AppliedFault, Asked, Instead, Passing
from mcpproxy.judge.session.frame import FaultMark
from mcpproxy.record.framing.sse import SseBlock


class Assembly:
    """An event stream of a known length, complete in ``raw``, with events that wait for a decision.

    A breakpoint or addons decide. All of the stream waits until the last decision, because its new length is
    not known before. ``decisions`` has the action for each event and its message, and ``rest`` is what
    follows the last event. ``mark`` takes a rule and an action, and makes the mark of the fault; ``gate``
    names the addons that fail closed. ``unchanged`` returns the steps if everything passes; ``own`` returns
    the events that mcpproxy appends.
    """

    def __init__(
        self,
        answer: HeldAnswer,
        raw: bytes,
        blocks: list[SseBlock],
        rest: bytes,
        decisions: list[tuple[Action | None, Passing]],
        mark: Callable[[str, str], FaultMark],
        gate: str,
        unchanged: Callable[[], list[AnswerStep]],
        own: Callable[[], list[bytes]],
    ) -> None:
        self._answer = answer
        self._raw = raw
        self._blocks = blocks
        self._rest = rest
        self._undecided = [(index, *decision) for index, decision in enumerate(decisions)]
        self._mark = mark
        self._gate = gate
        self._unchanged = unchanged
        self._own = own
        self._events: list[list[bytes]] = [[block.raw] for block in blocks]
        """For each event of the server, the events that are given in its place."""
        self._pauses = [
            self._mark_of(action)
            for action, _ in decisions
            if isinstance(action, AppliedFault) and action.is_breakpoint
        ]
        """The marks of the breakpoints that were not reached yet, in order."""
        self._marks = list(self._pauses)
        self._is_recorded_first = bool(self._marks)
        """Whether the first step records what the server sent; otherwise one of the last steps does."""
        self._end_steps: list[AnswerStep] = []

    def steps(self) -> list[AnswerStep]:
        """Return the steps up to the next decision; its ``on_release`` or ``on_outcome`` returns more."""
        if not self._is_recorded_first:
            return self._next_steps()
        return [AnswerStep("alter", self._raw, self._marks[0], has_more=True), *self._next_steps()]

    def _mark_of(self, applied: AppliedFault) -> FaultMark:
        return self._mark(applied.decision.rule.name, applied.decision.rule.action.verb)

    def _replace_event(self, index: int, mark: FaultMark, given: bytes | None) -> None:
        """Replace an event's data by ``given``; drop the event if it is ``None``."""
        self._marks.append(mark)
        self._events[index] = [] if given is None else [with_data(self._blocks[index], given)]

    def _next_steps(self) -> list[AnswerStep]:
        while self._undecided:
            index, action, passing = self._undecided.pop(0)
            match action:
                case Withheld(given=given):
                    self._replace_event(index, self._mark(f"addon {self._gate}", "error"), given)
                case Instead(by=by, how=how, given=given):
                    self._replace_event(index, self._mark(by, how), given)
                case Asked(hook):
                    return [self._ask_step(index, passing, hook)]
                case AppliedFault() as applied if applied.is_breakpoint:
                    return [self._hold_step(index, passing, applied)]
                case AppliedFault() as applied:
                    self._apply_fault(index, applied)
                    if delay_ns := applied.decision.delay_ns:
                        return [AnswerStep("wait", delay_ns=delay_ns), *self._next_steps()]
                case None:
                    pass
        return self._last_steps()

    def _ask_step(self, index: int, passing: Passing, hook: str) -> AnswerStep:
        def replaced(instead: Instead | None) -> list[AnswerStep]:
            if instead is not None:
                self._replace_event(index, self._mark(instead.by, instead.how), instead.given)
            return self._next_steps()

        data = b"" if self._is_recorded_first else self._raw
        return AnswerStep("ask", data, passing=passing, hook=hook, on_outcome=replaced)

    def _hold_step(self, index: int, passing: Passing, applied: AppliedFault) -> AnswerStep:
        def on_release(new: bytes | None) -> list[AnswerStep]:
            if new != passing.raw:
                self._events[index] = [] if new is None else [with_data(self._blocks[index], new)]
            return self._next_steps()

        mark = self._pauses.pop(0)
        return AnswerStep("hold", fault=mark, passing=passing, applied=applied, on_release=on_release)

    def _apply_fault(self, index: int, applied: AppliedFault) -> None:
        """Do to an event what a fault rule says."""
        mark, action, block = self._mark_of(applied), applied.decision.rule.action, self._blocks[index]
        self._marks.append(mark)
        self._events[index] = [with_data(block, data) for _, data in applied.effect.given]
        if action.verb == "cut":
            self._events[index] = [block.raw[: cut_at(applied.decision, block.raw)]]
        if action.verb in ("cut", "disconnect"):
            self._undecided.clear()
            self._events[index + 1 :] = []
            self._end_steps.append(AnswerStep("end", fault=mark, is_reset=action.text == "reset"))

    def _last_steps(self) -> list[AnswerStep]:
        if not self._marks:
            return self._unchanged()
        own, mark = self._own(), self._marks[0]
        whole = () if self._end_steps else (self._rest, *own)
        events = (event for group in self._events for event in group)
        given = [event for event in (*events, *whole) if event]
        # If the connection is to be closed early, the head keeps the full length, so that the client notices.
        length = len(self._raw) - len(self._answer.head) if self._end_steps else sum(map(len, given))
        head = with_length(given_head(self._answer), length)
        steps = [] if self._is_recorded_first else [AnswerStep("alter", self._raw, mark, has_more=True)]
        steps.append(AnswerStep("give", head, mark, head, "head", has_more=True))
        steps += [AnswerStep("give", event, mark, event, "event", has_more=True) for event in given]
        return [*steps[:-1], replace(steps[-1], has_more=False), *self._end_steps]
