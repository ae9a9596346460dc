"""Decide what happens to the lines of a stdio session with a gate, and when. No I/O and no clock.

A lane is one direction. Lines that no policy acts on pass at once, byte for byte. A line that a policy acts
on is withheld, and its replacement waits in the lane until it is due. While a step that keeps the order
waits, later lines of the lane are withheld, too, and wait behind it, as in a slow pipe. They are marked with
the fault that they wait for and the action ``wait``.

A line that is too long to hold passes in pieces, and no policy acts on it. Nothing else enters its lane
before it has ended. If an addon fails closed, such a line is withheld."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from mcpproxy.gate.intercept.addons.addon_outcomes import AddonOutcome, AskAddons, instead_after
from mcpproxy.gate.intercept.addons.closed_gate import ENDS_BYTES, LIMIT_BYTES, TOO_LONG, Withheld
from mcpproxy.gate.intercept.fault_actions import FOREVER_NS
from mcpproxy.gate.intercept.fault_decisions import FaultDecision
from mcpproxy.gate.intercept.fault_effects import FaultEffect
from mcpproxy.gate.intercept.held_messages import HeldMessage, HeldMessages, Release, Released
from mcpproxy.gate.intercept.lane import Lane, LaneStep, Pieces, Queued, Run
from mcpproxy.gate.intercept.policies import AppliedFault, Asked, Instead, Passing, Policies, Refused
from mcpproxy.judge.session.frame import CLIENT, SERVER, FaultMark, Frame, Sender, other
from mcpproxy.record.framing.lines import Line
from mcpproxy.record.relay.said_once import said_once


class Lanes:
    """Both lanes of a session. ``say`` writes a line to stderr. Times are of a monotonic clock, in ns.

    ``ask`` asks addons about a message. When they have answered, the caller has to call ``proceed``.
    """

    def __init__(self, policies: Policies, say: Callable[[str], None], ask: AskAddons | None = None) -> None:
        self._policies = policies
        self._ask = ask
        self._lanes: Final[dict[Sender, Lane]] = {CLIENT: Lane(CLIENT), SERVER: Lane(SERVER)}
        self._held = HeldMessages()
        self._number = self._seq = 0  # of the last fault, and of the last frame that left
        self._say_once = said_once(say)

    @property
    def next_due_ns(self) -> int | None:
        """When ``take_due`` has to be called next; ``None`` if nothing waits for a time."""
        times: list[int] = []
        for lane in self._lanes.values():
            if not lane.in_long_line:
                if (due := lane.next) is not None:
                    times.append(due.at_ns)
                times += lane.flush_ns.values()
        if (until_ns := self._held.next_due_ns) is not None:
            times.append(until_ns)
        next_ns = min(times, default=FOREVER_NS)
        return next_ns if next_ns < FOREVER_NS else None

    def is_waiting(self, sender: Sender) -> bool:
        """Whether something from ``sender`` still has to be given to the other peer."""
        lane = self._lanes[sender]
        return bool(lane.next or lane.flush_ns or lane.paused or lane.asked)

    def is_stalled(self, sender: Sender) -> bool:
        """Whether nothing scheduled in the lane will ever be given, because a ``stall`` lasts forever."""
        due = self._lanes[sender].next
        return due is not None and due.at_ns >= FOREVER_NS

    def is_full(self, sender: Sender) -> bool:
        """Whether nothing more should be read from ``sender`` for now."""
        return self._lanes[sender].held_bytes > LIMIT_BYTES or self.is_stalled(sender)

    def take_bytes(self, sender: Sender, data: bytes, now_ns: int) -> Iterator[LaneStep]:
        """Take bytes from ``sender``, and yield what to do with the lines that they complete."""
        lines = self._lanes[sender].framer.feed(data, now_ns)
        return self._leave(self._take_lines(sender, lines, now_ns), now_ns)

    def end(self, sender: Sender, now_ns: int) -> Iterator[LaneStep]:
        """End the stream of ``sender``, whose last line may have no line feed; yield what to do."""
        return self._leave(self._end_lane(self._lanes[sender], now_ns), now_ns)

    def _end_lane(self, lane: Lane, now_ns: int) -> Iterator[LaneStep]:
        lane.has_ended = True
        yield from self._take_lines(lane.sender, lane.framer.end(), now_ns)
        lane.in_long_line = False
        for rule in list(lane.flush_ns):
            lane.flush(rule, now_ns)
        yield from lane.take_due(now_ns)

    def take_due(self, now_ns: int) -> Iterator[LaneStep]:
        """Yield the steps that are due by now."""
        for lane in self._lanes.values():
            for rule, at_ns in list(lane.flush_ns.items()):
                if at_ns <= now_ns:
                    lane.flush(rule, now_ns)
        self._held.release_due(now_ns)
        return self._take_waiting(now_ns)

    def _take_waiting(self, now_ns: int) -> Iterator[LaneStep]:
        """Yield the waiting steps of both lanes that are due."""
        for lane in self._lanes.values():
            yield from self._leave(lane.take_due(now_ns), now_ns)

    @property
    def held(self) -> list[HeldMessage]:
        """The messages that breakpoints hold, in the order in which they came."""
        return self._held.messages

    def release(self, release: Release, now_ns: int) -> Iterator[LaneStep]:
        """Release a line that a breakpoint holds, and return the steps to do.

        Raises:
            NothingHeldError: nothing is held under this number.
        """
        self._held.release(release, now_ns)
        return self._take_waiting(now_ns)

    def proceed(self, now_ns: int) -> Iterator[LaneStep]:
        """Yield what to do after addons have answered."""
        for lane in self._lanes.values():
            while lane.asked and (run := lane.asked[0].run) is not None:
                lane.held_bytes -= lane.asked.popleft().size
                yield from self._leave(run(now_ns), now_ns)
        yield from self._take_waiting(now_ns)

    # What leaves

    def _leave(self, steps: Iterator[LaneStep], now_ns: int) -> Iterator[LaneStep]:
        """Yield ``steps``, with an answer to the sender in place of each request that a policy refuses."""
        return self._leave_or_refuse(steps, now_ns) if self._policies.has_exit else steps

    def _leave_or_refuse(self, steps: Iterator[LaneStep], now_ns: int) -> Iterator[LaneStep]:
        for step in steps:
            if step.kind not in ("pass", "give"):
                yield step
                continue
            passing = b""
            for line in _cut_lines(step.data):
                refused = self._refusal(step.sender, line, now_ns)
                if refused is None:
                    passing += line
                    continue
                if passing:
                    yield replace(step, data=passing)
                    passing = b""
                if step.kind == "pass":
                    yield LaneStep("refuse", step.sender, line)
                fault = step.fault and replace(step.fault, rule=refused.by, action="error")
                answer = LaneStep("answer", other(step.sender), refused.answer + b"\n", fault)
                self._schedule_step(answer, now_ns, keeps_order=False)
                yield from self._leave_or_refuse(self._lanes[other(step.sender)].take_due(now_ns), now_ns)
            if passing:
                yield step if len(passing) == len(step.data) else replace(step, data=passing)

    def _refusal(self, sender: Sender, line: bytes, now_ns: int) -> Refused | None:
        """Return the refusal of a line that leaves, or ``None``; a piece of a long line is never refused."""
        lane = self._lanes[sender]
        raw = line.removesuffix(b"\n")
        is_terminated = len(raw) < len(line)
        is_part, continues = lane.leaves_in_pieces, not is_terminated and not lane.has_ended
        lane.leaves_in_pieces = continues
        self._seq += 1
        frame = Frame(self._seq, sender, raw, now_ns, is_terminated, continues)
        if is_part or continues:
            self._policies.observe(frame, leaves=True)
            return None
        refused = self._policies.leave(Passing(frame))
        self._seq += refused is not None  # our answer is a frame too
        return refused

    # What enters

    def _take_lines(self, sender: Sender, lines: list[Line], now_ns: int) -> Iterator[LaneStep]:
        lane = self._lanes[sender]
        for raw, at_ns, is_terminated, continues in lines:
            line = raw + b"\n" if is_terminated else raw
            if continues or lane.in_pieces:
                run: Run | None = self._decide_piece(lane, raw, line, at_ns, is_terminated, continues)
            else:
                run = self._decide_line(sender, raw, line, at_ns)
            if run is not None and not lane.asked:
                yield from run(now_ns)
            else:
                lane.held_bytes += len(line)
                if run is not None:
                    lane.asked.append(Queued(len(line), run))
            yield from lane.take_due(now_ns)
            yield from self._lanes[other(sender)].take_due(now_ns)

    def _decide_piece(
        self, lane: Lane, raw: bytes, line: bytes, at_ns: int, is_terminated: bool, continues: bool
    ) -> Run:
        """Return what to do with a piece of a line that is too long to hold."""
        frame = Frame(0, lane.sender, raw, at_ns, is_terminated, continues)
        self._policies.observe(frame, leaves=False)
        is_first, lane.in_pieces = not lane.in_pieces, continues
        gate = self._policies.gate
        if not gate.addons:
            if continues and self._policies.has_entry:
                self._say_once(f"a line over {LIMIT_BYTES >> 20} MiB passes, whatever the fault rules say")
            if continues and self._policies.has_exit:
                self._say_once(f"a line over {LIMIT_BYTES >> 20} MiB passes without being judged")
            return partial(self._pass_piece, lane.sender, line, continues)
        if is_first:
            lane.long_line = raw[:ENDS_BYTES], b""
        start, end = lane.long_line
        lane.long_line = start, (end + raw[-ENDS_BYTES:])[-ENDS_BYTES:]
        withheld = Withheld(TOO_LONG)
        if not continues:
            withheld = gate.withhold(lane.sender, start, TOO_LONG, lane.long_line[1])
        return partial(self._withhold_line, lane.sender, line, withheld)

    def _pass_piece(self, sender: Sender, line: bytes, continues: bool, now_ns: int) -> Iterator[LaneStep]:
        """Let a piece of a long line pass."""
        lane = self._lanes[sender]
        # While earlier lines wait, the pieces wait behind them.
        lane.in_long_line = continues and not lane.ordered and lane.begun is None
        yield from self._pass_or_wait(sender, line, now_ns)

    def _decide_line(self, sender: Sender, raw: bytes, line: bytes, at_ns: int) -> Run | None:
        """Decide about a line; return what to do with it, ``None`` if addons are asked about it."""
        if not self._policies.has_entry:
            return partial(self._pass_or_wait, sender, line)
        passing = Passing(Frame(0, sender, raw, at_ns, len(line) > len(raw)))
        match self._policies.enter(passing):
            case AppliedFault() as applied:
                return partial(self._apply_fault, passing, line, applied)
            case Instead() as instead:
                return partial(self._replace_line, sender, line, instead)
            case Withheld() as withheld:
                return partial(self._withhold_line, sender, line, withheld)
            case Asked(hook):
                self._ask_about(hook, passing, line)
                return None
            case None:
                return partial(self._pass_or_wait, sender, line)

    def _ask_about(self, hook: str, passing: Passing, line: bytes) -> None:
        """Let a line wait until addons have answered."""
        assert self._ask is not None
        queued = Queued(len(line))
        sender, raw, message = passing.sender, passing.raw, passing.message

        def on_outcome(outcome: AddonOutcome) -> None:
            instead = instead_after(outcome, raw, message)
            if instead is None:
                queued.run = partial(self._pass_or_wait, sender, line)
            else:
                queued.run = partial(self._replace_line, sender, line, instead)

        self._lanes[sender].asked.append(queued)
        self._ask(hook, sender, raw, on_outcome)

    def _replace_line(self, sender: Sender, line: bytes, instead: Instead, now_ns: int) -> Iterator[LaneStep]:
        """Replace a line by other bytes, if any, and answer its sender, if ``instead`` says so."""
        mark = self._mark(instead.by, instead.how)
        yield LaneStep("withhold", sender, line, mark)
        lane = self._lanes[sender]
        due_ns = max(now_ns, lane.last_due_ns) if lane.ordered else now_ns
        if instead.given is not None:
            self._schedule_step(LaneStep("give", sender, _as_line(instead.given, line), mark), due_ns)
        if instead.answer is not None:
            self._answer_sender(sender, instead.answer, mark, now_ns)

    def _withhold_line(
        self, sender: Sender, line: bytes, withheld: Withheld, now_ns: int
    ) -> Iterator[LaneStep]:
        """Withhold a line that addons that fail closed cannot see."""
        by = f"addon {self._policies.gate.addons}"
        return self._replace_line(sender, line, Instead(by, "error", withheld.given, withheld.answer), now_ns)

    def _apply_fault(
        self, passing: Passing, line: bytes, applied: AppliedFault, now_ns: int
    ) -> Iterator[LaneStep]:
        """Do to a line what a fault rule says."""
        sender, decision, action = passing.sender, applied.decision, applied.decision.rule.action
        lane, mark = self._lanes[sender], self._mark(decision.rule.name, action.verb)
        if lane.joined is not None:
            lane.flush(lane.joined.mark.rule, now_ns)
        yield LaneStep("withhold", sender, line, mark)
        if decision.rule.is_breakpoint:
            self._hold_line(passing, line, mark, decision, now_ns)
            return
        if action.verb in ("reorder", "join"):
            place = decision.draw("place") if action.verb == "reorder" else 0.0
            lane.hold(mark, line, action, place, now_ns)
            return
        earliest_ns = lane.last_due_ns if action.keeps_order and lane.ordered else 0
        if action.verb == "bandwidth":  # the time of a message begins when the message before it is through
            due_ns = max(now_ns, earliest_ns) + decision.delay_ns
        else:
            due_ns = max(now_ns + decision.delay_ns, earliest_ns)
        end = b"\n" if line.endswith(b"\n") else b""
        for pieces in _effect_lines(applied.effect, end):
            after_ns, data = pieces[0]
            due_ns += after_ns
            self._schedule_step(LaneStep("give", sender, data, mark), due_ns, action.keeps_order, pieces[1:])
        if applied.effect.answer is not None:
            self._answer_sender(sender, applied.effect.answer, mark, max(due_ns, now_ns))
        if action.verb in ("disconnect", "kill"):
            step = LaneStep("end", sender, fault=mark, ending=action.text)
            self._schedule_step(step, due_ns, action.keeps_order)

    def _hold_line(
        self, passing: Passing, line: bytes, mark: FaultMark, decision: FaultDecision, now_ns: int
    ) -> None:
        """Hold a line at a breakpoint."""
        sender, lane = passing.sender, self._lanes[passing.sender]

        def on_release(released: Released, now_ns: int) -> None:
            lane.paused -= 1
            lane.held_bytes -= len(line)
            if released.given is not None:
                given = LaneStep("give", sender, _as_line(released.given, line), mark)
                self._schedule_step(given, now_ns, keeps_order=False)
            if released.answer is not None:
                self._answer_sender(sender, released.answer, mark, now_ns)

        lane.paused += 1
        lane.held_bytes += len(line)
        self._held.hold(mark, passing, decision, now_ns, on_release, line)

    def _answer_sender(self, sender: Sender, answer: bytes, mark: FaultMark, due_ns: int) -> None:
        """Answer ``sender`` in the place of the other peer."""
        step = LaneStep("answer", other(sender), answer.replace(b"\n", b" ") + b"\n", mark)
        self._schedule_step(step, due_ns, keeps_order=False)

    def _pass_or_wait(self, sender: Sender, line: bytes, now_ns: int) -> Iterator[LaneStep]:
        """Let a line pass that no policy acts on; it waits behind earlier lines if these keep the order.

        If ``join`` holds the line before it, both are given together.
        """
        lane = self._lanes[sender]
        if lane.joined is not None:
            mark, first, _ = lane.joined
            yield LaneStep("withhold", sender, line, mark)
            lane.release_joined()
            self._schedule_step(LaneStep("give", sender, first + line, mark), max(now_ns, lane.last_due_ns))
        elif (blocker := lane.begun.step.fault if lane.begun else lane.blocker) and (
            lane.ordered or lane.begun
        ):
            mark = self._mark(blocker.rule, "wait")
            yield LaneStep("withhold", sender, line, mark)
            self._schedule_step(LaneStep("give", sender, line, mark), lane.last_due_ns)
        else:
            yield LaneStep("pass", sender, line)

    def _schedule_step(
        self, step: LaneStep, due_ns: int, keeps_order: bool = True, pieces: Pieces = ()
    ) -> None:
        self._lanes[step.sender].schedule(step, due_ns, keeps_order=keeps_order, pieces=pieces)

    def _mark(self, rule: str, action: str) -> FaultMark:
        self._number += 1
        return FaultMark(rule, action, self._number)


def _cut_lines(data: bytes) -> list[bytes]:
    *lines, last = data.split(b"\n")
    return [*(line + b"\n" for line in lines), *([last] if last else ())]


def _as_line(given: bytes, line: bytes) -> bytes:
    """Return the replacement of ``line`` as one line, terminated as ``line`` is."""
    return given.replace(b"\n", b" ") + (b"\n" if line.endswith(b"\n") else b"")


def _effect_lines(effect: FaultEffect, end: bytes) -> list[Pieces]:
    """Return the lines of an effect, each as its pieces; ``end`` is the line end of the last line."""
    if not effect.given:
        return []
    *others, (after_ns, data) = effect.given
    last = after_ns, data + end
    if effect.is_framed:
        return [*(((gap_ns, line + b"\n"),) for gap_ns, line in others), (last,)]
    return [(*others, last)]
