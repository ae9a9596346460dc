"""The stdio relay with enforced rules: each line is held until it is judged.

This module is imported only with ``--enforce``. A gate splits the bytes of each peer into lines. Lines that
may pass are forwarded as they came. If a line is a request that breaks an enforced rule, the relay answers
it, and the other side never sees it. The refused line and our answer are written to the journal, from which
the recorder makes the trace. Everything else is as in ``Relay``, which journals bytes after it has forwarded
them.

*Order.* A sink is the stream to one of the peers. While a sink has no room, its lines wait in a queue. Our
answer is added to the queue of the sink that leads back to the sender, but never in the middle of a line: if
that sink is in the middle of a line too long to hold, the answer waits for the end of the line.

*Limits.* A line longer than ``LIMIT_BYTES`` is forwarded as it comes without being judged, and stderr says so
once.

*Faults.* If the ``Enforcer`` raises or cannot be made, that is a fault of ours: from then on everything is
forwarded, and stderr says so once."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Final, TypeAlias

from mcpproxy.framing.lines import LineFramer
from mcpproxy.relay import journal as journals
from mcpproxy.relay.stdio.relay import CHUNK_BYTES, NOT_JOURNALED, PIPE_BYTES, Relay
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
_REFUSED_KINDS: Final = {CLIENT: journals.CLIENT_REFUSED, SERVER: journals.SERVER_REFUSED}
"""Sender of a refused request -> the journal kind of the request."""

_ANSWER_KINDS: Final = {CLIENT: journals.SERVER_OWN, SERVER: journals.CLIENT_OWN}
"""Sender of a refused request -> the journal kind of our answer."""

JudgedLines: TypeAlias = "list[tuple[bytes, bytes | None]]"
"""Lines, each with our answer; the answer is ``None`` if the line may pass."""


class Gate:
    """Splits the bytes of both peers into lines and asks ``enforcer`` about each line.

    ``say`` writes a line to stderr.
    """

    def __init__(self, enforcer: Enforcer | None, say: Callable[[str], None]) -> None:
        self._enforcer = enforcer
        self._say = say
        self._framers: dict[Sender, LineFramer] = {
            CLIENT: LineFramer(LIMIT_BYTES),
            SERVER: LineFramer(LIMIT_BYTES),
        }
        self._in_long_line: set[Sender] = set()
        """The senders that are in the middle of a line longer than ``LIMIT_BYTES``."""
        self._has_reported_long = False
        self._seq = 0

    def is_between_lines(self, sender: Sender) -> bool:
        """Whether the bytes of ``sender`` forwarded so far end at the end of a line."""
        return sender not in self._in_long_line

    def take(self, sender: Sender, data: bytes, at_ns: int) -> JudgedLines:
        """Judge the lines that ``data`` completes."""
        return self._judged(sender, self._framers[sender].feed(data, at_ns))

    def end(self, sender: Sender) -> JudgedLines:
        """End the stream of ``sender``, and judge its last line if that line has no line feed."""
        return self._judged(sender, self._framers[sender].end())

    def _judged(self, sender: Sender, lines: list[tuple[bytes, int, bool, bool]]) -> JudgedLines:
        return [
            (
                raw + b"\n" if terminated else raw,
                self._answer(Frame(0, sender, raw, at_ns, terminated, continues)),
            )
            for raw, at_ns, terminated, continues in lines
        ]

    def _answer(self, frame: Frame) -> bytes | None:
        """Return our answer to a line that must not pass; ``None`` if the line may pass."""
        self._seq += 1
        frame.seq = self._seq
        is_whole = not frame.continues and frame.sender not in self._in_long_line
        if frame.continues:
            self._in_long_line.add(frame.sender)
            if not self._has_reported_long:
                self._has_reported_long = True
                self._say(f"a line over {LIMIT_BYTES >> 20} MiB passes without being judged")
        else:
            self._in_long_line.discard(frame.sender)
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
"""An entry in the queue of a sink: the journal kind, when the bytes were read, and the bytes."""


def _chunks(kind: int, read_ns: int, lines: list[bytes]) -> Iterator[QueuedBytes]:
    """Join lines that may pass, and yield their bytes in chunks."""
    data = b"".join(lines)
    for position in range(0, len(data), CHUNK_BYTES):
        yield kind, read_ns, data[position : position + CHUNK_BYTES]


class EnforcingRelay(Relay):
    """A relay with a ``Gate`` for both directions.

    ``make_enforcer`` is called after the server's process was started.
    """

    reads_in_place = False
    chunk_bytes = PIPE_BYTES

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
        self._waiting_answers: dict[Sink, list[QueuedBytes]] = {}
        """Our answers that wait for the end of a line too long to hold."""

    def open_crash_buffer(self) -> None:
        """Open the crash buffer and make the ``Enforcer``, while the new process of the server loads.

        The crash buffer is a file that keeps a chunk until it is journaled, in case the relay is killed.
        """
        super().open_crash_buffer()
        enforcer: Enforcer | None = None
        try:
            enforcer = self._make_enforcer()
        except Exception as fault:
            self.say(f"a fault of mcpproxy, nothing is refused: {type(fault).__name__}: {fault}")
        self._gate = Gate(enforcer, self.say)

    def _deliver(self, sink: Sink, kind: int, read_ns: int, data: bytes | memoryview) -> bool:
        sender = _SENDERS.get(kind)
        # A memoryview is the unsent end of a chunk that was judged before.
        if sender is None or self._gate is None or isinstance(data, memoryview):
            return super()._deliver(sink, kind, read_ns, data)
        self._queue(sink, kind, read_ns, self._gate.take(sender, data, read_ns))
        return self._run_queue(sink)

    def _queue(self, sink: Sink, kind: int, read_ns: int, lines: JudgedLines) -> None:
        """Queue the lines that may pass, and for each refused line a journal record and our answer."""
        assert self._gate is not None
        sender, queue = _SENDERS[kind], self._queues.setdefault(sink, deque())
        passing: list[bytes] = []
        for line, answer in lines:
            if answer is None:
                passing.append(line)
                continue
            queue.extend(_chunks(kind, read_ns, passing))
            passing = []
            queue.append((_REFUSED_KINDS[sender], read_ns, line))
            queue.append((_ANSWER_KINDS[sender], 0, answer))
        queue.extend(_chunks(kind, read_ns, passing))
        if self._gate.is_between_lines(sender):
            queue.extend(self._waiting_answers.pop(sink, ()))

    def _run_queue(self, sink: Sink) -> bool:
        """Process the queue of ``sink`` while the sink has room; return false if it has no room left."""
        queue = self._queues.get(sink)
        while queue and sink.open:
            kind, read_ns, data = queue.popleft()
            if kind in _REFUSED_KINDS.values():
                self._record(kind, read_ns, data)
            elif kind in _ANSWER_KINDS.values():
                self._answer(sink, kind, data)
            elif not super()._deliver(sink, kind, read_ns, data):
                return False
        return True

    def _answer(self, request_sink: Sink, kind: int, data: bytes) -> None:
        """Send our answer back to the sender of a request for ``request_sink``; journal it as one record."""
        self._record(kind, time.monotonic_ns(), data)
        back_sink = self.peers[1] if request_sink is self.peers[0] else self.peers[0]
        # The peer whose lines are forwarded to ``back_sink``.
        sender = CLIENT if back_sink is self.peers[0] else SERVER
        queued = (NOT_JOURNALED, 0, data)
        assert self._gate is not None
        if not self._gate.is_between_lines(sender):
            self._waiting_answers.setdefault(back_sink, []).append(queued)
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
                self._pause(source.sink)  # the end of ``source`` is read again when the sink has room
                return
        super()._on_end(source, now_ns)

    def _on_broken(self, sink: Sink) -> None:
        self._queues.pop(sink, None)
        super()._on_broken(sink)
