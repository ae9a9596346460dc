"""Builds an event stream of a known length anew, when its events wait for somebody. No I/O and no clock."""

from collections.abc import Callable
from dataclasses import replace

from mcpproxy.gate.intercept.addons.closed_gate import Withheld
from mcpproxy.gate.intercept.fault_effects import delay_of
from mcpproxy.gate.intercept.http.http_answer_steps import (
    AnswerStep,
    HeldAnswer,
    cut_at,
    given_head,
    is_pause,
    with_data,
)
from mcpproxy.gate.intercept.http.http_heads import with_length
from mcpproxy.gate.intercept.policies import Action, Asked, Instead, MetFault, Passing
from mcpproxy.judge.session.frame import FaultMark
from mcpproxy.record.framing.sse import SseBlock


class Assembly:
    """An event stream of a known length, complete in ``raw``, with events that wait for somebody.

    All of it waits until the last of them is known, because only then the new length is known. ``asked`` has
    what becomes of each event, and ``rest`` is what follows the last. ``mark`` makes the mark of a policy,
    and ``gate`` names the addons that fail closed. ``unchanged`` returns the steps if everything passes,
    ``own`` the events that mcpproxy adds at the end.
    """

    def __init__(
        self,
        answer: HeldAnswer,
        raw: bytes,
        blocks: list[SseBlock],
        rest: bytes,
        asked: list[tuple[Action | None, Passing]],
        mark: Callable[[str, str], FaultMark],
        gate: str,
        unchanged: Callable[[], list[AnswerStep]],
        own: Callable[[], list[bytes]],
    ) -> None:
        self._answer = answer
        self._raw = raw
        self._blocks = blocks
        self._rest = rest
        self._left = [(index, *each) for index, each in enumerate(asked)]
        self._mark = mark
        self._gate = gate
        self._unchanged = unchanged
        self._own = own
        self._events: list[list[bytes]] = [[block.raw] for block in blocks]
        self._pauses = [self._mark_of(met) for met, _ in asked if isinstance(met, MetFault) and is_pause(met)]
        self._marks = list(self._pauses)
        self._is_told = bool(self._marks)
        """Whether the first step records what the server sent. Otherwise the first that is known does."""
        self._ends: list[AnswerStep] = []

    def steps(self) -> list[AnswerStep]:
        """Return the steps until somebody has to decide; that one's ``go_on`` or ``on_answer`` has more."""
        if not self._is_told:
            return self._next_steps()
        return [AnswerStep("alter", self._raw, self._marks[0], has_more=True), *self._next_steps()]

    def _mark_of(self, met: MetFault) -> FaultMark:
        return self._mark(met.decision.rule.name, met.decision.rule.action.verb)

    def _put(self, index: int, mark: FaultMark, given: bytes | None) -> None:
        self._marks.append(mark)
        self._events[index] = [] if given is None else [with_data(self._blocks[index], given)]

    def _next_steps(self) -> list[AnswerStep]:
        while self._left:
            index, action, passing = self._left.pop(0)
            match action:
                case Withheld(given=given):
                    self._put(index, self._mark(f"addon {self._gate}", "error"), given)
                case Instead(by=by, how=how, given=given):
                    self._put(index, self._mark(by, how), given)
                case Asked(hook):
                    return [self._ask(index, passing, hook)]
                case MetFault() as met if is_pause(met):
                    return [self._hold(index, passing, met)]
                case MetFault() as met:
                    delay_ns = self._meet(index, met)
                    if delay_ns:
                        return [AnswerStep("wait", delay_ns=delay_ns), *self._next_steps()]
                case None:
                    pass
        return self._last_steps()

    def _ask(self, index: int, passing: Passing, hook: str) -> AnswerStep:
        def replaced(instead: Instead | None) -> list[AnswerStep]:
            if instead is not None:
                self._put(index, self._mark(instead.by, instead.how), instead.given)
            return self._next_steps()

        data = b"" if self._is_told else self._raw
        return AnswerStep("ask", data, passing=passing, hook=hook, on_answer=replaced)

    def _hold(self, index: int, passing: Passing, met: MetFault) -> AnswerStep:
        def go_on(new: bytes | None) -> list[AnswerStep]:
            if new != passing.raw:
                self._events[index] = [] if new is None else [with_data(self._blocks[index], new)]
            return self._next_steps()

        return AnswerStep("hold", fault=self._pauses.pop(0), passing=passing, met=met, go_on=go_on)

    def _meet(self, index: int, met: MetFault) -> int:
        """Do to an event what a rule says. Return the delay of it, in nanoseconds."""
        mark, action, block = self._mark_of(met), met.decision.rule.action, self._blocks[index]
        self._marks.append(mark)
        self._events[index] = [with_data(block, data) for _, data in met.effect.given]
        if action.verb == "cut":
            self._events[index] = [block.raw[: cut_at(met.decision, block.raw)]]
        if action.verb in ("cut", "disconnect"):
            self._left.clear()
            self._events[index + 1 :] = []
            self._ends.append(AnswerStep("end", fault=mark, is_reset=action.text == "reset"))
        return delay_of(met.decision, len(block.raw))

    def _last_steps(self) -> list[AnswerStep]:
        if not self._marks:
            return self._unchanged()
        own, mark = self._own(), self._marks[0]
        whole = () if self._ends else (self._rest, *own)
        events = (event for group in self._events for event in group)
        given = [event for event in (*events, *whole) if event]
        # If the connection is closed early, the head says so: something is missing.
        length = len(self._raw) - len(self._answer.head) if self._ends else sum(map(len, given))
        head = with_length(given_head(self._answer), length)
        steps = [] if self._is_told else [AnswerStep("alter", self._raw, mark, has_more=True)]
        steps.append(AnswerStep("give", head, mark, head, "head", has_more=True))
        steps += [AnswerStep("give", event, mark, event, "event", has_more=True) for event in given]
        return [*steps[:-1], replace(steps[-1], has_more=False), *self._ends]
