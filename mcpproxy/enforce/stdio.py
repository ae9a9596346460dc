"""The stdio relay with enforced rules: each line is held until it is judged.

Imported only with ``--enforce``. A chunk is split into lines. Lines that may pass are forwarded as they came;
a request that breaks an enforced rule is answered here, and the other side never sees it. The rest of the
relay is unchanged: forwarded bytes are journaled after they were forwarded. A refused line is a journal
record, and so is our answer.

*Order.* While a sink has no room, its lines wait in a queue. Our answer is added to the queue of the sink
that leads back to the sender, never within a line: if a line there is too long to hold and still incomplete,
the answer waits for its end.

*Limits.* A line longer than ``LIMIT_BYTES`` is forwarded as it comes without being judged, and stderr says so
once.

*Faults.* If the judge raises or cannot be made, that is a fault of ours: from then on everything is
forwarded, and stderr says so once."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Final

from mcpproxy.framing.lines import LineFramer
from mcpproxy.relay import journal as journals
from mcpproxy.relay.stdio.relay import CHUNK_BYTES, NOT_JOURNALED, Relay
from mcpproxy.session.frame import CLIENT, SERVER, Frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcpproxy.enforce.policy import Enforcer
    from mcpproxy.relay.journal import Journal
    from mcpproxy.relay.stdio.signals import Signals
    from mcpproxy.relay.stdio.sinks import RelaySource, Sink
    from mcpproxy.session.frame import Sender

LIMIT_BYTES: Final = 16 << 20
"""The longest line that is held."""

_SENDERS: Final[dict[int, Sender]] = {journals.CLIENT: CLIENT, journals.SERVER: SERVER}
_REFUSED: Final = {CLIENT: journals.CLIENT_REFUSED, SERVER: journals.SERVER_REFUSED}
_OWN: Final = {CLIENT: journals.SERVER_OWN, SERVER: journals.CLIENT_OWN}
"""Sender of a refused request -> the kind of our answer."""


class Gate:
    """Splits what both peers send into lines and asks the enforcer about each. ``say`` writes a line to
    stderr."""

    def __init__(self, enforcer: Enforcer | None, say: Callable[[str], None]) -> None:
        self._enforcer = enforcer
        self._say = say
        self._framers: dict[Sender, LineFramer] = {
            CLIENT: LineFramer(LIMIT_BYTES),
            SERVER: LineFramer(LIMIT_BYTES),
        }
        self._in_pieces: set[Sender] = set()
        self._has_reported_long = False
        self._seq = 0

    def is_between_lines(self, sender: Sender) -> bool:
        """Whether the bytes of ``sender`` forwarded so far end at the end of a line."""
        return sender not in self._in_pieces

    def take(self, sender: Sender, data: bytes, at_ns: int) -> list[tuple[bytes, bytes | None]]:
        """Return the lines that ``data`` completes, each with our answer, or ``None`` if it may pass."""
        return self._judged(sender, self._framers[sender].feed(data, at_ns))

    def end(self, sender: Sender) -> list[tuple[bytes, bytes | None]]:
        """End the stream of ``sender``; returns its last line, if that has no line feed, as ``take`` does."""
        return self._judged(sender, self._framers[sender].end())

    def _judged(
        self, sender: Sender, lines: list[tuple[bytes, int, bool, bool]]
    ) -> list[tuple[bytes, bytes | None]]:
        return [
            (
                raw + b"\n" if terminated else raw,
                self._answer(Frame(0, sender, raw, at_ns, terminated, continues)),
            )
            for raw, at_ns, terminated, continues in lines
        ]

    def _answer(self, frame: Frame) -> bytes | None:
        self._seq += 1
        frame.seq = self._seq
        is_whole = not frame.continues and frame.sender not in self._in_pieces
        if frame.continues:
            self._in_pieces.add(frame.sender)
            if not self._has_reported_long:
                self._has_reported_long = True
                self._say(f"a line over {LIMIT_BYTES >> 20} MiB passes without being judged")
        else:
            self._in_pieces.discard(frame.sender)
        if self._enforcer is None:
            return None
        try:
            if not is_whole:
                self._enforcer.observe(frame)
                return None
            verdict = self._enforcer.refusal(frame)
        except Exception as fault:
            self._enforcer = None
            self._say(f"a fault of mcpproxy, nothing is refused any more: {type(fault).__name__}: {fault}")
            return None
        if verdict is None:
            return None
        self._seq += 1  # our answer is a frame too
        return verdict.body + b"\n"


QueuedBytes = tuple[int, int, bytes]
"""``(kind, read_ns, bytes)``: an entry in the queue of a sink."""


def _chunks(kind: int, read_ns: int, lines: list[bytes]) -> Iterator[QueuedBytes]:
    """Yield lines that may pass, joined and split into chunks."""
    data = b"".join(lines)
    for at in range(0, len(data), CHUNK_BYTES):
        yield kind, read_ns, data[at : at + CHUNK_BYTES]


class EnforcingRelay(Relay):
    """A relay with a gate in both directions. ``make_enforcer`` is called when the server has started."""

    def __init__(
        self,
        journal: Journal | None,
        signals: Signals,
        grace_s: float,
        quiet: bool,
        make_enforcer: Callable[[], Enforcer],
    ) -> None:
        super().__init__(journal, signals, grace_s, quiet)
        self._make_enforcer = make_enforcer
        self._gate: Gate | None = None
        self._queues: dict[Sink, deque[QueuedBytes]] = {}
        self._waiting: dict[Sink, list[QueuedBytes]] = {}
        """Answers that wait for the end of a line too long to hold."""

    def open_crash_buffer(self) -> None:
        """Make the judge too, while the server starts."""
        super().open_crash_buffer()
        enforcer: Enforcer | None = None
        try:
            enforcer = self._make_enforcer()
        except Exception as fault:
            self.say(f"a fault of mcpproxy, nothing is refused: {type(fault).__name__}: {fault}")
        self._gate = Gate(enforcer, self.say)

    def _deliver(self, sink: Sink, kind: int, read_ns: int, data: bytes | memoryview) -> bool:
        sender = _SENDERS.get(kind)
        # A memoryview is the rest of a chunk that was judged before.
        if sender is None or self._gate is None or isinstance(data, memoryview):
            return super()._deliver(sink, kind, read_ns, data)
        self._queue(sink, kind, read_ns, self._gate.take(sender, data, read_ns))
        return self._run_queue(sink)

    def _queue(self, sink: Sink, kind: int, read_ns: int, lines: list[tuple[bytes, bytes | None]]) -> None:
        """Queue the lines that may pass, and refused ones with our answers."""
        assert self._gate is not None
        sender, queue = _SENDERS[kind], self._queues.setdefault(sink, deque())
        passing: list[bytes] = []
        for line, answer in lines:
            if answer is None:
                passing.append(line)
                continue
            queue.extend(_chunks(kind, read_ns, passing))
            passing = []
            queue.append((_REFUSED[sender], read_ns, line))
            queue.append((_OWN[sender], 0, answer))
        queue.extend(_chunks(kind, read_ns, passing))
        if self._gate.is_between_lines(sender):
            queue.extend(self._waiting.pop(sink, ()))

    def _run_queue(self, sink: Sink) -> bool:
        """Process the queue of ``sink``; returns whether it is empty."""
        queue = self._queues.get(sink)
        while queue and sink.open:
            kind, read_ns, data = queue.popleft()
            if kind in _REFUSED.values():
                self._record(kind, read_ns, data)
            elif kind in _OWN.values():
                self._answer(sink, kind, data)
            elif not super()._deliver(sink, kind, read_ns, data):
                return False
        return True

    def _answer(self, asked: Sink, kind: int, data: bytes) -> None:
        """Send our answer back to the sender of a request for ``asked``, and journal it as one record."""
        self._record(kind, time.monotonic_ns(), data)
        back_sink = self.peers[1] if asked is self.peers[0] else self.peers[0]
        sender = CLIENT if back_sink is self.peers[0] else SERVER  # the peer whose lines are forwarded there
        queued = (NOT_JOURNALED, 0, data)
        assert self._gate is not None
        if not self._gate.is_between_lines(sender):
            self._waiting.setdefault(back_sink, []).append(queued)
            return
        self._queues.setdefault(back_sink, deque()).append(queued)
        if back_sink.rest is None and not self._run_queue(back_sink):
            self._pause(back_sink)

    def _resume(self, sink: Sink) -> None:
        if self._run_queue(sink):
            super()._resume(sink)

    def _on_end(self, source: RelaySource, now_ns: int) -> None:
        sender = _SENDERS.get(source.kind)
        if sender is not None and self._gate is not None and (lines := self._gate.end(sender)):
            self._queue(source.sink, source.kind, now_ns, lines)
            if not self._run_queue(source.sink):
                self._pause(source.sink)  # its end is read again when there is room
                return
        super()._on_end(source, now_ns)

    def _on_broken(self, sink: Sink) -> None:
        self._queues.pop(sink, None)
        super()._on_broken(sink)
