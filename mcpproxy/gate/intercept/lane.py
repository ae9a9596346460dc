"""A lane: the lines that wait in one direction of a stdio session with a gate, and when each is due."""

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

from mcpproxy.base.slotted import field, slotted
from mcpproxy.gate.intercept.addons.closed_gate import LIMIT_BYTES
from mcpproxy.gate.intercept.fault_actions import FaultAction
from mcpproxy.judge.session.frame import FaultMark, Sender
from mcpproxy.record.framing.lines import LineFramer

WITHIN_NS: Final = 1_000_000_000
"""How long ``reorder`` and ``join`` wait for further messages, unless the rule has ``within``."""

LaneStepKind: TypeAlias = Literal["pass", "withhold", "give", "answer", "refuse", "end"]


@slotted(frozen=True)
class LaneStep:
    """What the relay has to do next, by ``kind``.

    - ``pass``: forward ``data`` as it is.
    - ``withhold``: only record ``data``, which ``sender`` sent.
    - ``give``: write ``data`` to the receiver of what ``sender`` sends.
    - ``answer``: the same, but ``data`` is our own answer, in the place of ``sender``.
    - ``refuse``: only record ``data``, a request that is refused.
    - ``end``: end streams or the server, as ``ending`` says: ``eof``, ``half-close``, or the name of a
      signal.

    All have a ``fault``, except ``pass``, ``refuse``, the answer to a refused request on which no other
    policy acted, and the rest of data that is written in chunks.
    """

    kind: LaneStepKind
    sender: Sender
    data: bytes = b""
    fault: FaultMark | None = None
    ending: str = ""


Pieces: TypeAlias = tuple[tuple[int, bytes], ...]
"""The pieces of a line, each with the time in ns after the one before it."""


class _Due(NamedTuple):
    """A step that waits until ``at_ns``, and the further pieces of its line.

    ``number`` orders steps with equal times. A step that ``keeps_order`` is done after all such steps that
    were scheduled before it, and later lines wait for it.
    """

    at_ns: int
    number: int
    step: LaneStep
    keeps_order: bool
    pieces: Pieces


class _Held(NamedTuple):
    """A line that ``reorder`` or ``join`` holds. ``place`` is the number by which ``reorder`` sorts."""

    mark: FaultMark
    line: bytes
    place: float


Run: TypeAlias = Callable[[int], Iterator[LaneStep]]
"""Yields what to do with a line, given the time in ns."""


@slotted()
class Queued:
    """A line of ``size`` bytes about which addons are asked, or a line behind such a line.

    ``run`` is ``None`` until it is decided what to do with the line.
    """

    size: int
    run: Run | None = None


@slotted()
class Lane:
    """What ``sender`` has sent and its receiver has not received yet. Times are monotonic, in ns."""

    sender: Sender
    framer: LineFramer = field(default_factory=lambda: LineFramer(LIMIT_BYTES))
    waiting: list[_Due] = field(default_factory=list[_Due])
    begun: _Due | None = None
    """The next piece of a line whose beginning the receiver has, so that nothing else may be written."""
    last_due_ns: int = 0
    """When the last of the steps that keep the order is due."""
    scheduled: int = 0
    """How many steps were scheduled so far."""
    ordered: int = 0
    """How many steps that keep the order are waiting."""
    blocker: FaultMark | None = None
    """The fault of the last step that keeps the order; later lines wait because of it."""
    held_bytes: int = 0
    """How many bytes wait in this lane, whatever they wait for."""
    in_pieces: bool = False
    """Whether the next line of the framer continues a long line."""
    long_line: tuple[bytes, bytes] = (b"", b"")
    """The beginning and the end of a long line that is withheld."""
    in_long_line: bool = False
    """Whether the receiver has received a part of a long line, so that nothing else may be written."""
    reordered: dict[str, list[_Held]] = field(default_factory=dict[str, list[_Held]])
    """Name of a ``reorder`` rule -> the lines that it holds."""
    joined: _Held | None = None
    """The line that waits for the next one, to be written with it."""
    asked: deque[Queued] = field(default_factory=lambda: deque[Queued]())
    """Lines about which addons are asked, and the lines behind them, so that the order is kept."""
    paused: int = 0
    """How many lines breakpoints hold."""
    has_ended: bool = False
    """Whether ``sender`` will send nothing more."""
    leaves_in_pieces: bool = False
    """Whether only the beginning of a line has left so far."""
    flush_ns: dict[str, int] = field(default_factory=dict[str, int])
    """Name of a rule -> when the lines that its ``reorder`` or ``join`` holds are given at the latest."""

    @property
    def next(self) -> _Due | None:
        """The step that is due next; ``None`` if nothing waits."""
        return self.begun or (self.waiting[0] if self.waiting else None)

    def schedule(self, step: LaneStep, due_ns: int, *, keeps_order: bool = True, pieces: Pieces = ()) -> None:
        """Let a step wait until ``due_ns``. The further ``pieces`` of its line follow it. ``_Due`` explains
        ``keeps_order``.
        """
        self.scheduled += 1
        heapq.heappush(self.waiting, _Due(due_ns, self.scheduled, step, keeps_order, pieces))
        self.held_bytes += len(step.data) + sum(len(data) for _, data in pieces)
        self.ordered += keeps_order
        due_ns += sum(after_ns for after_ns, _ in pieces)
        if keeps_order:
            self.last_due_ns, self.blocker = max(due_ns, self.last_due_ns), step.fault

    def take_due(self, now_ns: int) -> Iterator[LaneStep]:
        """Yield the steps that are due by now, and take them out of the lane."""
        while (due := self.next) is not None and due.at_ns <= now_ns and not self.in_long_line:
            at_ns, number, step, keeps_order, pieces = due
            if self.begun is None:
                heapq.heappop(self.waiting)
            self.begun = None
            self.held_bytes -= len(step.data)
            if pieces:
                after_ns, data = pieces[0]
                piece = LaneStep("give", step.sender, data, step.fault)
                self.begun = _Due(at_ns + after_ns, number, piece, keeps_order, pieces[1:])
            else:
                self.ordered -= keeps_order
            yield step

    def hold(self, mark: FaultMark, line: bytes, action: FaultAction, place: float, now_ns: int) -> None:
        """Hold a line for the lines with which ``action`` reorders or joins it, or until its time is over.

        ``place`` is the number by which ``reorder`` sorts.
        """
        self.held_bytes += len(line)
        self.flush_ns.setdefault(mark.rule, now_ns + (action.gap_ns or WITHIN_NS))
        if action.verb == "join":
            self.joined = _Held(mark, line, place)
            return
        held = self.reordered.setdefault(mark.rule, [])
        held.append(_Held(mark, line, place))
        if len(held) >= action.count:
            self.flush(mark.rule, now_ns)

    def flush(self, rule: str, now_ns: int) -> None:
        """Schedule the lines that ``rule`` holds."""
        due_ns = max(now_ns, self.last_due_ns) if self.ordered else now_ns
        if self.joined is not None and self.joined.mark.rule == rule:
            mark, line, _ = self.release_joined()
            self.schedule(LaneStep("give", self.sender, line, mark), due_ns)
        for mark, line, _ in sorted(self.reordered.pop(rule, []), key=lambda held: held.place):
            self.held_bytes -= len(line)
            self.schedule(LaneStep("give", self.sender, line, mark), due_ns)
        self.flush_ns.pop(rule, None)

    def release_joined(self) -> _Held:
        """Remove the line that ``join`` holds from the lane, and return it."""
        assert self.joined is not None
        held, self.joined = self.joined, None
        self.held_bytes -= len(held.line)
        self.flush_ns.pop(held.mark.rule, None)
        return held
