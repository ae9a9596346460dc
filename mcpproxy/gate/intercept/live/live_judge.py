"""Judge messages in the relay's own process, for breakpoints on findings: ``--break 'rule:PROTO-*'``.

The recorder judges messages after they have passed. To hold a message because of a finding, it has to be
judged before, so it is judged here as well, by the same rules and in the same two views: the view of a sender
has what that peer sends, when it sends it; the view of a receiver has what that peer is given, when it is
given. Only a session with such a breakpoint imports this module.

A bug in mcpproxy does no harm here: judging ends, stderr says so once, and no breakpoint on a finding holds
anything any more. If a function of the user's own rules fails, only its rules end."""

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final, TypeAlias

from mcpproxy.gate.intercept.lane import LaneStep
from mcpproxy.gate.intercept.policies import Passing, Policy
from mcpproxy.judge.observer.two_views import CUT, KILLED, TwoViews
from mcpproxy.judge.ruleset.printing import printing_to_stderr
from mcpproxy.judge.ruleset.rule_options import RuleOptions
from mcpproxy.judge.session.frame import (
    CLIENT,
    SERVER,
    Eof,
    Event,
    Finding,
    Frame,
    Note,
    RequestHead,
    ResponseHead,
    Sender,
    other,
)

if TYPE_CHECKING:
    from mcpproxy.judge.ruleset.guards import CustomRuleError

Findings: TypeAlias = tuple[Finding, ...]
Say: TypeAlias = Callable[[str], None]
"""Writes a line to stderr."""


class LiveJudge:
    """Judges what each peer sends, by the rules of ``options``, and notes what the other peer is given.

    All frames and heads that were sent, and all their replacements, are numbered as in the recording. This
    never raises; ``say`` writes a line to stderr.
    """

    def __init__(self, options: RuleOptions, say: Say) -> None:
        self._say = say
        self._runs_code = bool(options.folders)
        self._views: TwoViews | None = None
        self._number = 0
        try:
            with self._guarded_stdout():
                rules, self._selection = options.resolve(self._leave_out)
                # ``lists_all``: the hundredth finding with the same cause holds its message, too.
                views = rules.observer(lists_all=True, has_faults=True)
            assert isinstance(views, TwoViews)
            self._views = views
        except Exception as fault:  # a bug in mcpproxy must not end the session
            self.stop(fault)

    @property
    def is_judging(self) -> bool:
        """Whether messages are judged: no bug has ended that."""
        return self._views is not None

    def next_number(self) -> int:
        """Return the number of the next frame or head."""
        self._number += 1
        return self._number

    def judge_sent(self, event: Frame | RequestHead | ResponseHead, head: int = 0) -> Findings:
        """Judge what a peer has sent; return the findings about it by the selected rules.

        ``head`` is the number of the HTTP head before it, whose findings are included. Findings about earlier
        events, which the new event only brings to light, are left out: those events have passed already.
        """
        findings = self._judge(event, _sender_of(event))
        return tuple(finding for finding in findings if finding.frame in (event.seq, head))

    def note_given(self, event: Frame | RequestHead | ResponseHead) -> None:
        """Take note that the other peer is given an event that ``judge_sent`` has judged."""
        self._judge(event, other(_sender_of(event)))

    def note_event(self, event: Event, peer: Sender | None = None) -> None:
        """Take note of any other event, which only ``peer`` saw; with ``None``, its own marks say who did."""
        self._judge(event, peer)

    def stop(self, fault: Exception) -> None:
        """Stop judging because of a bug in mcpproxy, and say so on stderr."""
        self._views = None
        self._say(f"a fault of mcpproxy, no breakpoint on a finding holds: {type(fault).__name__}: {fault}")

    def _judge(self, event: Event, peer: Sender | None) -> Findings:
        if self._views is None:
            return ()
        try:
            with self._guarded_stdout():
                findings = self._views.observe(event) if peer is None else self._views.observe_as(peer, event)
            return tuple(finding for finding in findings if self._selection.takes(finding.rule))
        except Exception as fault:  # a bug in mcpproxy must not end the session
            self.stop(fault)
            return ()

    def _guarded_stdout(self) -> AbstractContextManager[object]:
        """Keep the prints of a user's rule away from stdout, which is for protocol messages only."""
        return printing_to_stderr() if self._runs_code else nullcontext()

    def _leave_out(self, codes: tuple[str, ...], fault: "CustomRuleError") -> None:
        rules, why = ", ".join(codes) or "a state update", " ".join(str(fault).split())
        self._say(f"{rules} holds nothing any more: {why}")


MakeLiveJudge: TypeAlias = Callable[[Say], LiveJudge]
"""Makes a ``LiveJudge``, given a function that writes a line to stderr."""


class LiveLines(Policy):
    """Judges the lines of a stdio session when they arrive, and notes which of them ``Lanes`` lets pass.

    In each direction, the steps of the lanes pass or withhold the lines in the order in which they arrived.
    """

    def __init__(self, judge: LiveJudge) -> None:
        self._judge: Final = judge
        self._undecided: Final[dict[Sender, deque[Frame]]] = {CLIENT: deque(), SERVER: deque()}
        """The judged lines that the lanes have neither passed nor withheld yet."""

    def enter(self, passing: Passing) -> None:
        passing.findings = self.judge_line(passing.frame)

    def observe(self, event: Event, *, leaves: bool) -> None:
        if isinstance(event, Frame) and not leaves:
            self.judge_line(event)

    def judge_line(self, frame: Frame) -> Findings:
        """Judge a line, or a piece of a line, and return the findings about it."""
        if not self._judge.is_judging:
            return ()
        frame.seq = self._judge.next_number()
        self._undecided[frame.sender].append(frame)
        return self._judge.judge_sent(frame)

    def note_step(self, step: LaneStep, now_ns: int) -> None:
        """Take note of the next step that the relay does."""
        if not self._judge.is_judging:
            return
        if step.kind in ("pass", "withhold", "refuse"):
            if not self._undecided[step.sender]:
                self._judge.stop(LookupError("a line that was not judged"))
            elif (frame := self._undecided[step.sender].popleft()) and step.kind == "pass":
                self._judge.note_given(frame)
        elif step.kind in ("give", "answer"):
            *lines, last = step.data.split(b"\n")
            for index, raw in enumerate([*lines, last] if last else lines):
                is_whole = index < len(lines)
                frame = Frame(self._judge.next_number(), step.sender, raw, now_ns, is_whole, not is_whole)
                frame.by_proxy, frame.fault = True, step.fault
                self._judge.note_event(frame)
        else:
            what = CUT if step.ending in ("eof", "half-close") else KILLED
            self._judge.note_event(Note(0, what, step.ending, now_ns))

    def note_end(self, sender: Sender, now_ns: int) -> None:
        """Take note that ``sender`` sends nothing more."""
        self._judge.note_event(Eof(sender, now_ns))


def _sender_of(event: Frame | RequestHead | ResponseHead) -> Sender:
    if isinstance(event, Frame):
        return event.sender
    return CLIENT if isinstance(event, RequestHead) else SERVER
