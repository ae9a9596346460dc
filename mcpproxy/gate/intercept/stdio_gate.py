"""The gate of a stdio session: it holds each line until it is decided what to do with it.

This module is imported only with an option that holds messages. ``Lanes`` decides, with a lane for each
direction, and this gate has the relay carry it out. The withheld lines and their replacements are written to
the journal, so that the recording shows both, and no peer is blamed for what mcpproxy did.

*Order.* A sink is the stream to one of the peers. Steps wait in a queue of their sink while it has no room.
The steps that a line causes are done after what was sent before that line, so our answer to a line waits in
the queue of the sink for which the line was meant.

*Times.* The relay's ``poll`` ends when the next step is due. A stream whose lane is full is not read."""

from __future__ import annotations

import json
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from mcpproxy.gate.intercept.addons.addon_outcomes import AddonOutcome
from mcpproxy.gate.intercept.held_messages import NothingHeldError, Release
from mcpproxy.gate.intercept.lane import LaneStep
from mcpproxy.gate.intercept.lanes import Lanes
from mcpproxy.gate.intercept.policies import Policies, Policy, marked
from mcpproxy.judge.observer.two_views import CUT, KILLED
from mcpproxy.judge.session.frame import CLIENT, SERVER, Sender
from mcpproxy.record.relay import journal as journals
from mcpproxy.record.relay.stdio.relay import BY_GATE, CHUNK_BYTES
from mcpproxy.record.relay.stdio.sinks import RelaySource, Sink

if TYPE_CHECKING:
    from mcpproxy.gate.intercept.addons.addon_calls import AddonCalls
    from mcpproxy.gate.intercept.control import Command, Control
    from mcpproxy.gate.intercept.gate_options import GateOptions
    from mcpproxy.gate.intercept.live.live_judge import LiveLines
    from mcpproxy.record.relay.stdio.line_gate import GatedRelay

# Kinds of records in the journal, by the peer whose line it is; ``_SENDERS`` is the reverse of ``_KINDS``.
_SENDERS: Final[dict[int, Sender]] = {journals.CLIENT: CLIENT, journals.SERVER: SERVER}
_KINDS: Final[dict[Sender, int]] = {CLIENT: journals.CLIENT, SERVER: journals.SERVER}
_ALTERED: Final[dict[Sender, int]] = {CLIENT: journals.CLIENT_ALTERED, SERVER: journals.SERVER_ALTERED}
_GIVEN: Final[dict[Sender, int]] = {CLIENT: journals.CLIENT_GIVEN, SERVER: journals.SERVER_GIVEN}
_REFUSED: Final[dict[Sender, int]] = {CLIENT: journals.CLIENT_REFUSED, SERVER: journals.SERVER_REFUSED}
_OWN: Final[dict[Sender, int]] = {CLIENT: journals.CLIENT_OWN, SERVER: journals.SERVER_OWN}


class StdioGate:
    """Applies the policies of ``options`` to the lines of both peers; implements ``LineGate``."""

    def __init__(self, relay: GatedRelay, options: GateOptions, trace: str) -> None:
        self._relay = relay
        self._options = options
        self._lanes: Lanes | None = None
        self._judge: LiveLines | None = None
        self._control: Control | None = None
        if options.rules is not None and options.rules.have_breakpoints:
            from mcpproxy.gate.intercept.control import control_path, listen

            self._control = listen(
                control_path(trace), relay.register, relay.unregister, self._on_command, relay.say
            )
        self._addons: AddonCalls | None = None
        if options.make_addons is not None:
            self._addons = options.make_addons(relay.say, trace)
            self._addons.attach(relay.register, relay.unregister, self._proceed)
        self._queues: dict[Sink, deque[tuple[LaneStep, int]]] = {}
        """Sink -> the steps that wait until it has room, each with the time for its record, in ns."""

    def begin(self) -> None:
        policies: list[Policy] = []
        if self._options.make_judge is not None:
            from mcpproxy.gate.intercept.live.live_judge import LiveLines

            policies.append(judge := LiveLines(self._options.make_judge(self._relay.say)))
            self._judge = judge
        gate = self._options.add_policies(policies, self._relay.say, self._addons, is_http=False)
        self._lanes = Lanes(Policies(policies, self._relay.say, gate), self._relay.say, self._ask_addons)

    def take_bytes(self, source: RelaySource, now_ns: int, data: bytes) -> None:
        assert self._lanes is not None
        sink = source.sink
        self._queue_steps(sink, self._lanes.take_bytes(_SENDERS[source.kind], data, now_ns), now_ns)
        self._hold_full_sources()
        self._run_queue_or_pause(sink)

    def take_end(self, source: RelaySource, now_ns: int) -> bool:
        assert self._lanes is not None
        relay, sender = self._relay, _SENDERS[source.kind]
        self._queue_steps(source.sink, self._lanes.end(sender, now_ns), now_ns)
        if not self.run_queue(source.sink):
            relay.pause(source.sink)  # the end is read again when the sink has room
            return False
        if source not in relay.sources:  # a rule that acted on the last line has closed the stream
            return False
        if self._lanes.is_waiting(sender):  # the end is read again when the lane is empty
            source.is_held = True
            relay.watch(source)
            return False
        if self._judge is not None:
            self._judge.note_end(sender, now_ns)
        return True

    def _queue_steps(self, sink: Sink, steps: Iterable[LaneStep], at_ns: int) -> None:
        """Queue steps for a sink; consecutive lines that pass are joined, up to ``CHUNK_BYTES`` a write."""
        queue = self._queues.setdefault(sink, deque())
        sender = CLIENT if sink is self._relay.peers[0] else SERVER  # only its lines pass to this sink
        passing: list[bytes] = []

        def queue_passing() -> None:
            data = b"".join(passing)
            passing.clear()
            for start in range(0, len(data), CHUNK_BYTES):
                queue.append((LaneStep("pass", sender, data[start : start + CHUNK_BYTES]), at_ns))

        for step in steps:
            if self._judge is not None:
                self._judge.note_step(step, at_ns)
            if step.kind == "pass" and step.sender == sender:
                passing.append(step.data)
            else:
                queue_passing()
                queue.append((step, at_ns))
        queue_passing()

    def run_queue(self, sink: Sink) -> bool:
        queue = self._queues.get(sink)
        while queue and sink.open:
            step, at_ns = queue.popleft()
            if step.kind == "pass":
                if not self._relay.deliver(sink, _KINDS[step.sender], at_ns, step.data):
                    return False
            elif step.kind == "withhold":
                assert step.fault is not None
                self._relay.record(_ALTERED[step.sender], at_ns, marked(step.fault, step.data))
            elif step.kind == "refuse":
                self._relay.record(_REFUSED[step.sender], at_ns, step.data)
            elif step.kind == "end":
                self._end_streams(step)
            elif (own_sink := self._sink_of(step.sender)) is not sink:
                self._queues.setdefault(own_sink, deque()).append((step, at_ns))
                self._run_queue_or_pause(own_sink)
            elif not self._give_data(sink, step):
                return False
        return True

    def _give_data(self, sink: Sink, step: LaneStep) -> bool:
        """Write a chunk of what mcpproxy gives a peer in the place of the other peer, and queue the rest.

        Return whether the whole chunk was written.
        """
        now_ns = time.monotonic_ns()
        if step.fault is not None:
            self._relay.record(_GIVEN[step.sender], now_ns, marked(step.fault, step.data))
        elif step.kind == "answer":  # a ``give`` without a fault is the rest of data that is recorded already
            self._relay.record(_OWN[step.sender], now_ns, step.data)
        if len(step.data) > CHUNK_BYTES:
            rest = LaneStep("give", step.sender, step.data[CHUNK_BYTES:])
            self._queues[sink].appendleft((rest, 0))
        return self._relay.deliver(sink, BY_GATE, 0, step.data[:CHUNK_BYTES])

    def _end_streams(self, step: LaneStep) -> None:
        """Close streams, or end the server, as a rule asks."""
        assert step.fault is not None
        if step.ending not in ("eof", "half-close"):
            self._record_note(KILLED, f"rule {step.fault.rule}: {step.ending} to the server")
            self._relay.kill(signal.Signals[step.ending])
            return
        self._record_note(CUT, f"rule {step.fault.rule}: {step.ending}")
        self._relay.disconnect(_SENDERS if step.ending == "eof" else (_KINDS[step.sender],))

    def _record_note(self, what: str, why: str) -> None:
        note = json.dumps({"what": what, "why": why}).encode()
        self._relay.record(journals.NOTE, time.monotonic_ns(), note)

    def _sink_of(self, sender: Sender) -> Sink:
        """Return the sink to which the lines of ``sender`` go."""
        return self._relay.peers[0 if sender == CLIENT else 1]

    def _run_queue_or_pause(self, sink: Sink) -> None:
        if sink.rest is None and not self.run_queue(sink):
            self._relay.pause(sink)

    def _on_command(self, command: Command) -> Command:
        """Carry out a command from the control socket, and return the answer."""
        from mcpproxy.gate.intercept.control import do_command

        lanes, now_ns = self._lanes, time.monotonic_ns()

        def release(command: Release) -> None:
            if lanes is None:
                raise NothingHeldError(command.number)
            self._run_steps(lanes.release(command, now_ns), now_ns)

        return do_command(command, lanes.held if lanes is not None else [], now_ns, release)

    def _ask_addons(
        self, hook: str, sender: Sender, raw: bytes, on_outcome: Callable[[AddonOutcome], None]
    ) -> None:
        assert self._addons is not None
        self._addons.ask(hook, "", sender, raw, on_outcome)

    def _proceed(self) -> None:
        """Proceed with the messages about which addons have answered."""
        if self._relay.peers and self._lanes is not None:
            now_ns = time.monotonic_ns()
            self._run_steps(self._lanes.proceed(now_ns), now_ns)

    def run_due(self, timeout_s: float | None) -> float | None:
        if self._lanes is None:
            return timeout_s
        now_ns = time.monotonic_ns()
        if self._relay.peers:
            if (due_ns := self._lanes.next_due_ns) is not None and due_ns <= now_ns:
                self._run_steps(self._lanes.take_due(now_ns), now_ns)
            if self._addons is not None:
                self._addons.give_up_late(now_ns)
        due = (self._lanes.next_due_ns, None if self._addons is None else self._addons.next_due_ns)
        left_s = min((max(0, each - now_ns) / 1e9 for each in due if each is not None), default=None)
        return left_s if timeout_s is None or (left_s is not None and left_s < timeout_s) else timeout_s

    def _run_steps(self, steps: Iterable[LaneStep], now_ns: int) -> None:
        """Do steps that are due, or released, without a new line having arrived."""
        for step in steps:
            if self._judge is not None:
                self._judge.note_step(step, now_ns)
            sink = self._sink_of(step.sender)
            self._queues.setdefault(sink, deque()).append((step, now_ns))
            self._run_queue_or_pause(sink)
        self._hold_full_sources()

    @property
    def is_host_behind(self) -> bool:
        lanes = self._lanes
        is_behind = lanes is not None and lanes.is_waiting(SERVER) and not lanes.is_stalled(SERVER)
        return is_behind and self._relay.peers[1].open

    def _hold_full_sources(self) -> None:
        """Stop reading each stream whose lane is full; read it again when nothing waits in the lane."""
        assert self._lanes is not None
        for source in self._relay.sources:
            if (sender := _SENDERS.get(source.kind)) is not None:
                waits = source.is_held and self._lanes.is_waiting(sender)
                source.is_held = waits or self._lanes.is_full(sender)
                self._relay.watch(source)

    def stop(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None

    def close(self) -> None:
        if self._addons is not None:
            self._addons.close()
