"""The stdio relay with fault rules: each line is held until it is known whether a rule acts on it.

This module is imported only with ``--faults`` or ``--fault``. ``FaultLanes`` says what to do, and this relay
does it. Everything else is as in ``Relay``. What was withheld and what was given in its place is written to
the journal, so that the recording shows both, and no peer is blamed for it.

*Order.* A sink is the stream to one of the peers. Steps wait in a queue of their sink while it has no room.
What follows from a line is done after what was sent before it: our answer waits in the queue of the sink for
which the line was meant.

*Times.* ``poll`` waits no longer than until the next step is due. A stream whose lane is full is not read."""

from __future__ import annotations

import json
import select
import signal
import time
from collections import deque
from typing import TYPE_CHECKING, Final

from mcpproxy.intercept.fault_lane import LaneStep
from mcpproxy.intercept.fault_lanes import FaultLanes
from mcpproxy.observer.two_views import CUT, KILLED
from mcpproxy.relay import journal as journals
from mcpproxy.relay.stdio.relay import CHUNK_BYTES, NOT_JOURNALED, PIPE_BYTES, Relay
from mcpproxy.session.frame import CLIENT, SERVER, FaultMark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mcpproxy.intercept.addons.addon_calls import AddonCalls, MakeAddons
    from mcpproxy.intercept.addons.addon_outcomes import AddonOutcome
    from mcpproxy.intercept.control import Control
    from mcpproxy.intercept.fault_rules import FaultRules
    from mcpproxy.intercept.held_messages import Release
    from mcpproxy.intercept.live.live_judge import LiveLines, MakeLiveJudge
    from mcpproxy.relay.journal import Journal
    from mcpproxy.relay.stdio.signals import Signals
    from mcpproxy.relay.stdio.sinks import RelaySource, Sink
    from mcpproxy.session.frame import Sender

_SENDERS: Final[dict[int, Sender]] = {journals.CLIENT: CLIENT, journals.SERVER: SERVER}
_KINDS: Final[dict[Sender, int]] = {CLIENT: journals.CLIENT, SERVER: journals.SERVER}
_ALTERED: Final[dict[Sender, int]] = {CLIENT: journals.CLIENT_ALTERED, SERVER: journals.SERVER_ALTERED}
_GIVEN: Final[dict[Sender, int]] = {CLIENT: journals.CLIENT_GIVEN, SERVER: journals.SERVER_GIVEN}


class FaultRelay(Relay):
    """A relay that does to the messages of both peers what ``rules`` say."""

    reads_in_place = False
    chunk_bytes = PIPE_BYTES

    def __init__(
        self,
        journal: Journal | None,
        signals: Signals,
        grace_s: float,
        quiet: bool,
        rules: FaultRules,
        trace: str = "",
        make_addons: MakeAddons | None = None,
        make_judge: MakeLiveJudge | None = None,
    ) -> None:
        super().__init__(journal, signals, grace_s, quiet)
        self._make_judge = make_judge
        self._judge: LiveLines | None = None
        self._control: Control | None = None
        if any(rule.action.verb == "pause" for rule in rules.rules):
            self._listen(trace)
        self._addons: AddonCalls | None = None
        if make_addons is not None:
            self._addons = make_addons(self.say, trace)
            self._addons.attach(self._register, self._unregister, self._go_on)
        ask, closed = (self._ask, self._addons.closed) if self._addons else (None, "")
        self._lanes = FaultLanes(rules, self.say, ask, closed)
        self._queues: dict[Sink, deque[tuple[LaneStep, int]]] = {}
        """The steps of each sink that wait until it has room, each with the time of its line."""
        self._unread: list[RelaySource] = []
        """The streams that are not read because their lane is full, or has to be emptied at their end."""

    def open_crash_buffer(self) -> None:
        """Open the crash buffer, and make the judge, while the new process of the server loads."""
        super().open_crash_buffer()
        if self._make_judge is not None:
            from mcpproxy.intercept.live.live_judge import LiveLines

            self._lanes.judge = self._judge = LiveLines(self._make_judge(self.say))

    def _deliver(self, sink: Sink, kind: int, read_ns: int, data: bytes | memoryview) -> bool:
        sender = _SENDERS.get(kind)
        # A memoryview is the unsent end of bytes that have been looked at.
        if sender is None or isinstance(data, memoryview):
            return self._write(sink, kind, read_ns, data)
        self._queue(sink, self._lanes.take(sender, data, read_ns), read_ns)
        self._read_or_not()
        return self._run_queue(sink)

    def _write(self, sink: Sink, kind: int, read_ns: int, data: bytes | memoryview) -> bool:
        own_bytes = self.own_bytes
        is_written = super()._deliver(sink, kind, read_ns, data)
        if sink is not self.to_stderr:
            self.own_bytes = own_bytes  # it counts what stderr got from us
        return is_written

    def _queue(self, sink: Sink, steps: Iterable[LaneStep], at_ns: int) -> None:
        """Queue steps; lines that pass are put together, so that they are written at once as they came."""
        queue = self._queues.setdefault(sink, deque())
        sender = CLIENT if sink is self.peers[0] else SERVER  # only its lines pass to this sink
        passing: list[bytes] = []

        def queue_passing() -> None:
            data = b"".join(passing)
            passing.clear()
            for start in range(0, len(data), CHUNK_BYTES):
                queue.append((LaneStep("pass", sender, data[start : start + CHUNK_BYTES]), at_ns))

        for step in steps:
            if self._judge is not None:
                self._judge.done(step, at_ns)
            if step.kind == "pass":
                passing.append(step.data)
            else:
                queue_passing()
                queue.append((step, at_ns))
        queue_passing()

    def _run_queue(self, sink: Sink) -> bool:
        """Do the steps of ``sink`` while it has room; return whether all are done."""
        queue = self._queues.get(sink)
        while queue and sink.open:
            step, at_ns = queue.popleft()
            if step.kind == "pass":
                if not self._write(sink, _KINDS[step.sender], at_ns, step.data):
                    return False
            elif step.kind == "withhold":
                self._record(_ALTERED[step.sender], at_ns, _marked(step.fault, step.data))
            elif step.kind == "end":
                self._end(step)
            elif (own_sink := self._sink_of(step.sender)) is not sink:
                self._queues.setdefault(own_sink, deque()).append((step, at_ns))
                self._run_or_pause(own_sink)
            elif not self._give(sink, step):
                return False
        return True

    def _give(self, sink: Sink, step: LaneStep) -> bool:
        """Write what a peer is given in the place of the other; return whether all was written."""
        if step.fault is not None:  # ``None`` for the rest of what was recorded before
            self._record(_GIVEN[step.sender], time.monotonic_ns(), _marked(step.fault, step.data))
        if len(step.data) > CHUNK_BYTES:
            rest = LaneStep("give", step.sender, step.data[CHUNK_BYTES:])
            self._queues[sink].appendleft((rest, 0))
        return self._write(sink, NOT_JOURNALED, 0, step.data[:CHUNK_BYTES])

    def _end(self, step: LaneStep) -> None:
        """Close streams, or end the server, as a rule asks."""
        assert step.fault is not None
        if step.ending not in ("eof", "half-close"):
            self._note(KILLED, f"rule {step.fault.rule}: {step.ending} to the server")
            self._kill(signal.Signals[step.ending])
            return
        senders = (CLIENT, SERVER) if step.ending == "eof" else (step.sender,)
        self._note(CUT, f"rule {step.fault.rule}: {step.ending}")
        for source in list(self.sources):
            if _SENDERS.get(source.kind) in senders:
                self._stop(source)
        for sender in senders:
            sink = self._sink_of(sender)
            self._queues.pop(sink, None)
            self._close(sink)
        if CLIENT in senders:
            self.client_ended = True
        if step.ending == "eof":
            self.host_gone = True  # so a server that does not exit at the end of stdin is ended
        self._start_grace_period()

    def _note(self, what: str, why: str) -> None:
        self._record(journals.NOTE, time.monotonic_ns(), json.dumps({"what": what, "why": why}).encode())

    def _sink_of(self, sender: Sender) -> Sink:
        """Return the sink for what ``sender`` sends."""
        return self.peers[0 if sender == CLIENT else 1]

    def _run_or_pause(self, sink: Sink) -> None:
        if sink.rest is None and not self._run_queue(sink):
            self._pause(sink)

    # Breakpoints

    def _listen(self, trace: str) -> None:
        """Let ``mcpproxy breakpoints`` answer what is held."""
        from mcpproxy.intercept.control import control_path, listen

        self._control = listen(
            control_path(trace), self._register, self._unregister, self._on_command, self.say
        )

    def _on_command(self, command: dict[str, object]) -> dict[str, object]:
        """Do what a command says, and return the answer."""
        from mcpproxy.intercept.control import answered

        now_ns = time.monotonic_ns()

        def release(asked: Release) -> None:
            self._run_steps(list(self._lanes.release(asked, now_ns)), now_ns)

        return answered(command, self._lanes.paused, now_ns, release)

    # Addons

    def _ask(self, kind: str, sender: Sender, raw: bytes, go_on: Callable[[AddonOutcome], None]) -> bool:
        """Ask addons about a message; return whether one of them wants it."""
        addons = self._addons
        if addons is None or not addons.wants(kind):
            return False
        if addons.only_remembers(kind):
            addons.remember("", sender, raw)
            return False
        addons.ask(kind, "", sender, raw, go_on)
        return True

    def _go_on(self) -> None:
        """Go on with the messages about which addons have answered."""
        if self.peers:
            now_ns = time.monotonic_ns()
            self._run_steps(self._lanes.proceed(now_ns), now_ns)

    def finish(self, code: int | None) -> None:
        if self._control is not None:
            self._control.close()
        super().finish(code)
        if self._addons is not None:
            self._addons.close()

    # Times

    def _turn(self, timeout_s: float | None) -> None:
        due_ns = self._lanes.next_due_ns
        if self._addons is not None and (answer_ns := self._addons.next_due_ns) is not None:
            due_ns = answer_ns if due_ns is None else min(due_ns, answer_ns)
        if due_ns is not None:
            left_s = max(0, due_ns - time.monotonic_ns()) / 1e9
            timeout_s = left_s if timeout_s is None else min(timeout_s, left_s)
        super()._turn(timeout_s)
        if due_ns is not None and self.peers and (now_ns := time.monotonic_ns()) >= due_ns:
            self._run_steps(self._lanes.due(now_ns), now_ns)
            if self._addons is not None:
                self._addons.due(now_ns)

    def _run_steps(self, steps: Iterable[LaneStep], now_ns: int) -> None:
        """Do steps that no line has brought."""
        for step in steps:
            if self._judge is not None:
                self._judge.done(step, now_ns)
            sink = self._sink_of(step.sender)
            self._queues.setdefault(sink, deque()).append((step, now_ns))
            self._run_or_pause(sink)
        self._read_or_not()

    def _is_host_behind(self) -> bool:
        waits = self._lanes.is_waiting(SERVER) and not self._lanes.is_stalled(SERVER)
        return super()._is_host_behind() or (waits and self.peers[1].open)

    # Streams that are not read for a while

    def _read_or_not(self) -> None:
        """Stop reading a stream whose lane is full, and go on when it has room again."""
        for source in self.sources:
            sender = _SENDERS.get(source.kind)
            if sender is None:
                continue
            if source in self._unread:
                if not self._lanes.is_full(sender) and not self._lanes.is_waiting(sender):
                    self._unread.remove(source)
                    if source.sink.rest is None:
                        self.poll.register(source.fd, select.POLLIN)
            elif self._lanes.is_full(sender):
                self._stop_reading(source)

    def _stop_reading(self, source: RelaySource) -> None:
        self._unread.append(source)
        if source.sink.rest is None:
            self.poll.unregister(source.fd)

    def _pause(self, sink: Sink) -> None:
        for source in self._unread:  # ``_pause`` expects every source of the sink to be registered
            if source.sink is sink:
                self.poll.register(source.fd, 0)
        super()._pause(sink)

    def _resume(self, sink: Sink) -> None:
        if not self._run_queue(sink) or not sink.open:  # its last step may have closed it
            return
        super()._resume(sink)
        for source in self._unread:
            if source.sink is sink and source in self.sources:
                self.poll.unregister(source.fd)

    def _on_end(self, source: RelaySource, now_ns: int) -> None:
        sender = _SENDERS.get(source.kind)
        if sender is not None:
            self._queue(source.sink, self._lanes.end(sender, now_ns), now_ns)
            if not self._run_queue(source.sink):
                self._pause(source.sink)  # the end of ``source`` is read again when the sink has room
                return
            if source not in self.sources:  # the last line met a rule that has closed the stream
                return
            if self._lanes.is_waiting(sender):  # ... or when the lane is empty
                self._stop_reading(source)
                return
            if self._judge is not None:
                self._judge.ended(sender, now_ns)
        super()._on_end(source, now_ns)

    def _on_broken(self, sink: Sink) -> None:
        self._queues.pop(sink, None)
        super()._on_broken(sink)

    def _stop(self, source: RelaySource) -> None:
        if source in self._unread:
            self._unread.remove(source)
        super()._stop(source)


def _marked(fault: FaultMark | None, data: bytes) -> bytes:
    """Return the payload of a record about a fault."""
    assert fault is not None
    mark = {"rule": fault.rule, "action": fault.action, "number": fault.number}
    return json.dumps(mark).encode() + b"\n" + data
