"""What happens to the lines of a stdio session under fault rules, and when. No I/O and no clock.

A lane is one direction. Lines that no rule acts on pass at once, as the bytes that they were. A line that a
rule acts on is withheld, and what its receiver is given instead waits in the lane until it is due. While
something waits that keeps the order, later lines of the lane are withheld as well and wait behind it, as in a
slow pipe; these have the mark of the fault that they wait for, with the action ``wait``.

If the rules fail because of a bug in mcpproxy, every later line passes, and stderr says so once.

A line that is too long to hold passes in pieces, and no rule acts on it. Nothing else enters its lane before
it has ended.

Where an addon fails closed, a line about which no addon can be asked does not pass, nor does a long one, nor
anything after such a bug."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, Protocol

from mcpproxy.framing.lines import Line
from mcpproxy.intercept.addons.addon_outcomes import AddonOutcome, Ask, addon_kind, outcome_of
from mcpproxy.intercept.addons.closed_gate import A_FAULT, ENDS_BYTES, TOO_LONG, ClosedGate, Withheld
from mcpproxy.intercept.fault_actions import FOREVER_NS
from mcpproxy.intercept.fault_decisions import FaultDecider, FaultDecision
from mcpproxy.intercept.fault_effects import FaultEffect, delay_of, effect_of
from mcpproxy.intercept.fault_lane import LIMIT_BYTES, Lane, LaneStep, Pieces, Queued, Run
from mcpproxy.intercept.fault_rules import FaultRules
from mcpproxy.intercept.held_messages import HeldMessage, Release, released
from mcpproxy.intercept.message_facts import OpenRequests
from mcpproxy.protocol.jsonrpc import Message, parse
from mcpproxy.session.frame import CLIENT, SERVER, FaultMark, Finding, Sender, other


class JudgesLines(Protocol):
    """What judges lines before rules decide about them; see ``live_judge``."""

    def sent(
        self,
        sender: Sender,
        raw: bytes,
        at_ns: int,
        message: Message | None = None,
        *,
        is_terminated: bool = True,
        continues: bool = False,
    ) -> tuple[Finding, ...]:
        """Judge a line of ``sender``, or a piece of one, and return what was found."""
        ...


class FaultLanes:
    """Both lanes of a session. ``say`` writes a line to stderr. Times are of one monotonic clock, in ns.

    ``ask`` asks addons about a message; it returns false if none wants it. When they have answered,
    ``proceed`` has to be called. ``closed`` are the addons that fail closed.
    """

    def __init__(
        self, rules: FaultRules, say: Callable[[str], None], ask: Ask | None = None, closed: str = ""
    ) -> None:
        self._ask = ask
        self._gate = ClosedGate(closed, say)
        self.judge: JudgesLines | None = None
        """Set if a breakpoint asks for findings."""
        self._decider = FaultDecider(rules)
        self._requests = OpenRequests()
        self._lanes: Final[dict[Sender, Lane]] = {CLIENT: Lane(CLIENT), SERVER: Lane(SERVER)}
        self._say = say
        self._number = 0
        self._said: set[str] = set()
        self._is_broken = False

    @property
    def next_due_ns(self) -> int | None:
        """When ``due`` has to be called next; ``None`` if nothing waits."""
        times: list[int] = []
        for lane in self._lanes.values():
            if not lane.in_long_line:
                if (due := lane.next) is not None:
                    times.append(due[0])
                times += lane.flush_ns.values()
                times += [paused.until_ns for paused in lane.paused.values()] if lane.paused else ()
        next_ns = min(times, default=FOREVER_NS)
        return next_ns if next_ns < FOREVER_NS else None

    def is_waiting(self, sender: Sender) -> bool:
        """Whether something from ``sender`` still has to be given to the other side."""
        lane = self._lanes[sender]
        return bool(lane.next or lane.flush_ns or lane.paused or lane.asked)

    def is_stalled(self, sender: Sender) -> bool:
        """Whether nothing of the lane will ever be given."""
        due = self._lanes[sender].next
        return due is not None and due[0] >= FOREVER_NS

    def is_full(self, sender: Sender) -> bool:
        """Whether nothing more should be read from ``sender`` for now."""
        return self._lanes[sender].held_bytes > LIMIT_BYTES or self.is_stalled(sender)

    def take(self, sender: Sender, data: bytes, now_ns: int) -> Iterator[LaneStep]:
        """Take bytes of ``sender``, and yield what to do with the lines that they complete."""
        yield from self._lines(sender, self._lanes[sender].framer.feed(data, now_ns), now_ns)

    def end(self, sender: Sender, now_ns: int) -> Iterator[LaneStep]:
        """End the stream of ``sender``: its last line may have no line feed."""
        lane = self._lanes[sender]
        yield from self._lines(sender, lane.framer.end(), now_ns)
        lane.in_long_line = False
        for rule in list(lane.flush_ns):
            lane.flush(rule, now_ns)
        yield from lane.due(now_ns)

    def due(self, now_ns: int) -> Iterator[LaneStep]:
        """Yield what is due by now."""
        for lane in self._lanes.values():
            for rule, at_ns in list(lane.flush_ns.items()):
                if at_ns <= now_ns:
                    lane.flush(rule, now_ns)
            for paused in list(lane.paused.values()):
                if paused.until_ns <= now_ns:
                    yield from self.release(Release(paused.mark.number, paused.then), now_ns)
            yield from lane.due(now_ns)

    @property
    def paused(self) -> list[HeldMessage]:
        """What breakpoints hold, in the order in which it came."""
        lines = [line for lane in self._lanes.values() for line in lane.paused.values()]
        return sorted(lines, key=lambda line: line.mark.number)

    def release(self, release: Release, now_ns: int) -> Iterator[LaneStep]:
        """Release a line that a breakpoint holds, and yield what to do.

        Raises:
            LookupError: nothing is held by this number.
        """
        lane = next((lane for lane in self._lanes.values() if release.number in lane.paused), None)
        if lane is None:
            raise LookupError(release.number)
        paused = lane.paused[release.number]
        outcome = released(paused, release)  # if it fails, the line is still held
        del lane.paused[release.number]
        lane.held_bytes -= len(paused.raw)
        if outcome.given is not None:
            given = outcome.given.replace(b"\n", b" ") + (b"\n" if paused.raw.endswith(b"\n") else b"")
            self._schedule(LaneStep("give", paused.sender, given, paused.mark), now_ns, keeps_order=False)
        if outcome.answer is not None:
            answer = LaneStep("give", other(paused.sender), outcome.answer + b"\n", paused.mark)
            self._schedule(answer, now_ns, keeps_order=False)
        for each in self._lanes.values():
            yield from each.due(now_ns)

    def _lines(self, sender: Sender, lines: list[Line], now_ns: int) -> Iterator[LaneStep]:
        lane = self._lanes[sender]
        for raw, at_ns, is_terminated, continues in lines:
            line = raw + b"\n" if is_terminated else raw
            if continues or lane.in_pieces:
                run: Run | None = self._long_line(lane, raw, line, at_ns, is_terminated, continues)
            else:
                run = self._line(sender, raw, line, at_ns)
            if run is not None and not lane.asked:
                yield from run(now_ns)
            else:
                lane.held_bytes += len(line)
                if run is not None:
                    lane.asked.append(Queued(len(line), run))
            yield from lane.due(now_ns)
            yield from self._lanes[other(sender)].due(now_ns)

    def _long_line(
        self, lane: Lane, raw: bytes, line: bytes, at_ns: int, is_terminated: bool, continues: bool
    ) -> Run:
        """Return what to do with a piece of a line that is too long to hold."""
        if self.judge is not None:
            self.judge.sent(lane.sender, raw, at_ns, is_terminated=is_terminated, continues=continues)
        is_first, lane.in_pieces = not lane.in_pieces, continues
        if not self._gate.addons:
            if continues:
                self._say_once(f"a line over {LIMIT_BYTES >> 20} MiB passes, whatever the fault rules say")
            return partial(self._piece, lane.sender, line, continues)
        if is_first:
            lane.long_line = raw[:ENDS_BYTES], b""
        start, end = lane.long_line
        lane.long_line = start, (end + raw[-ENDS_BYTES:])[-ENDS_BYTES:]
        if continues:
            return partial(self._withhold, lane.sender, line, Withheld(TOO_LONG))
        withheld = self._gate.withhold(lane.sender, start, TOO_LONG, lane.long_line[1])
        return partial(self._withhold, lane.sender, line, withheld)

    def _piece(self, sender: Sender, line: bytes, continues: bool, now_ns: int) -> Iterator[LaneStep]:
        """Let a piece of a long line pass."""
        lane = self._lanes[sender]
        # While earlier lines wait, the pieces wait behind them.
        lane.in_long_line = continues and not lane.ordered and lane.begun is None
        yield from self._pass_or_wait(sender, line, now_ns)

    def _asks(self, sender: Sender, raw: bytes, line: bytes, message: Message) -> bool:
        """Ask addons about a line; return whether it waits for them."""
        kind = addon_kind(message)
        if self._ask is None or kind is None:
            return False
        queued = Queued(len(line))

        def go_on(outcome: AddonOutcome) -> None:
            queued.run = partial(self._answered, sender, raw, line, message, outcome)

        lane = self._lanes[sender]
        lane.asked.append(queued)
        if self._ask(kind, sender, raw, go_on):
            return True
        lane.asked.pop()
        return False

    def _answered(
        self, sender: Sender, raw: bytes, line: bytes, message: Message, outcome: AddonOutcome, now_ns: int
    ) -> Iterator[LaneStep]:
        """Do with a line what addons say."""
        given, answer = outcome_of(outcome, raw, message)
        if given == raw:
            yield from self._pass_or_wait(sender, line, now_ns)
        else:
            mark = self._mark(f"addon {outcome.addon}", outcome.how)
            yield from self._instead(sender, line, mark, given, answer, now_ns)

    def _withhold(self, sender: Sender, line: bytes, withheld: Withheld, now_ns: int) -> Iterator[LaneStep]:
        """Let a line not pass that no addon can be asked about."""
        mark = self._mark(f"addon {self._gate.addons}", "error")
        yield from self._instead(sender, line, mark, withheld.given, withheld.answer, now_ns)

    def _instead(
        self,
        sender: Sender,
        line: bytes,
        mark: FaultMark,
        given: bytes | None,
        answer: bytes | None,
        now_ns: int,
    ) -> Iterator[LaneStep]:
        """Give other bytes in the place of a line, and an answer to its sender, if any."""
        yield LaneStep("withhold", sender, line, mark)
        lane = self._lanes[sender]
        due_ns = max(now_ns, lane.last_due_ns) if lane.ordered else now_ns
        if given is not None:
            new = given.replace(b"\n", b" ") + (b"\n" if line.endswith(b"\n") else b"")
            self._schedule(LaneStep("give", sender, new, mark), due_ns)
        if answer is not None:
            step = LaneStep("give", other(sender), answer.replace(b"\n", b" ") + b"\n", mark)
            self._schedule(step, now_ns, keeps_order=False)

    def proceed(self, now_ns: int) -> Iterator[LaneStep]:
        """Yield what to do after addons have answered."""
        for lane in self._lanes.values():
            while lane.asked and (run := lane.asked[0].run) is not None:
                lane.held_bytes -= lane.asked.popleft().size
                yield from run(now_ns)
        for lane in self._lanes.values():
            yield from lane.due(now_ns)

    def _line(self, sender: Sender, raw: bytes, line: bytes, at_ns: int) -> Run | None:
        """Decide about a line; return what to do with it, ``None`` if addons are asked about it."""
        decision = effect = message = None
        if not self._is_broken:
            try:
                message = parse(raw)
                findings: tuple[Finding, ...] = ()
                if self.judge is not None:
                    is_terminated = len(line) > len(raw)
                    findings = self.judge.sent(sender, raw, at_ns, message, is_terminated=is_terminated)
                facts = self._requests.facts(sender, raw, message, findings)
                decision = self._decider.decide(0, sender, facts)
                effect = effect_of(decision, raw, message) if decision else None
            except Exception as fault:  # a bug in mcpproxy must not end the session
                self._is_broken = True
                self._say(f"a fault of mcpproxy, no rule acts any more: {type(fault).__name__}: {fault}")
        if decision is None or effect is None or message is None:
            if decision is not None and not self._is_broken:
                self._say_once(f"fault rule {decision.rule.name}: its edit fits not every message it matches")
            withheld = self._withheld(sender, raw, message)
            if withheld is not None:
                return partial(self._withhold, sender, line, withheld)
            if message is not None and self._asks(sender, raw, line, message):
                return None
            return partial(self._pass_or_wait, sender, line)
        return partial(self._fault, sender, line, message, decision, effect)

    def _withheld(self, sender: Sender, raw: bytes, message: Message | None) -> Withheld | None:
        """Return what becomes of a line that must not pass a gate that fails closed."""
        if not self._gate.addons:
            return None
        if message is None or self._is_broken:
            return self._gate.withhold(sender, raw, A_FAULT)
        return self._gate.withheld(sender, raw, message)

    def _fault(
        self,
        sender: Sender,
        line: bytes,
        message: Message,
        decision: FaultDecision,
        effect: FaultEffect,
        now_ns: int,
    ) -> Iterator[LaneStep]:
        """Do with a line what a rule says."""
        lane, action = self._lanes[sender], decision.rule.action
        mark = self._mark(decision.rule.name, action.verb)
        if lane.joined is not None:
            lane.flush(lane.joined[0].rule, now_ns)
        yield LaneStep("withhold", sender, line, mark)
        if action.verb == "pause":
            until_ns = now_ns + action.gap_ns
            paused = HeldMessage(
                mark, sender, line, message, now_ns, until_ns, action.text, decision.findings
            )
            lane.paused[mark.number] = paused
            lane.held_bytes += len(line)
            return
        if action.verb in ("reorder", "join"):
            place = decision.draw("place") if action.verb == "reorder" else 0.0
            lane.hold(mark, line, action, place, now_ns)
            return
        delay_ns = delay_of(decision, len(line))
        earliest_ns = lane.last_due_ns if action.keeps_order and lane.ordered else 0
        if action.verb == "bandwidth":  # each message takes its time after the one before it
            due_ns = max(now_ns, earliest_ns) + delay_ns
        else:
            due_ns = max(now_ns + delay_ns, earliest_ns)
        end = b"\n" if line.endswith(b"\n") else b""
        for pieces in _with_ends(effect, end):
            after_ns, data = pieces[0]
            due_ns += after_ns
            self._schedule(LaneStep("give", sender, data, mark), due_ns, action.keeps_order, pieces[1:])
        if effect.answer is not None:
            answer = LaneStep("give", other(sender), effect.answer + b"\n", mark)
            self._schedule(answer, max(due_ns, now_ns), keeps_order=False)
        if action.verb in ("disconnect", "kill"):
            step = LaneStep("end", sender, fault=mark, ending=action.text)
            self._schedule(step, due_ns, action.keeps_order)

    def _pass_or_wait(self, sender: Sender, line: bytes, now_ns: int) -> Iterator[LaneStep]:
        """Let a line pass that no rule acts on, behind what waits in its lane."""
        lane = self._lanes[sender]
        if lane.joined is not None:
            mark, first, _ = lane.joined
            yield LaneStep("withhold", sender, line, FaultMark(mark.rule, mark.action, mark.number))
            lane.release_joined()
            self._schedule(LaneStep("give", sender, first + line, mark), max(now_ns, lane.last_due_ns))
        elif (blocker := lane.begun[2].fault if lane.begun else lane.blocker) and (
            lane.ordered or lane.begun
        ):
            mark = self._mark(blocker.rule, "wait")
            yield LaneStep("withhold", sender, line, mark)
            self._schedule(LaneStep("give", sender, line, mark), lane.last_due_ns)
        else:
            yield LaneStep("pass", sender, line)

    def _schedule(self, step: LaneStep, due_ns: int, keeps_order: bool = True, pieces: Pieces = ()) -> None:
        self._lanes[step.sender].schedule(step, due_ns, keeps_order=keeps_order, pieces=pieces)

    def _mark(self, rule: str, action: str) -> FaultMark:
        self._number += 1
        return FaultMark(rule, action, self._number)

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._say(text)


def _with_ends(effect: FaultEffect, end: bytes) -> list[Pieces]:
    """Return the lines that a receiver is given, each in its pieces; ``end`` ends the last line."""
    if not effect.given:
        return []
    *others, (after_ns, data) = effect.given
    last = after_ns, data + end
    if effect.is_framed:
        return [*(((gap_ns, line + b"\n"),) for gap_ns, line in others), (last,)]
    return [(*others, last)]
