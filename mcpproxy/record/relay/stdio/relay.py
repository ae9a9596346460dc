"""The relay: one loop over raw descriptors, between the host (the program that started mcpproxy) and the
server that mcpproxy wraps.

    host's stdin  0 ──► server's stdin        journaled
    host's stdout 1 ◄── server's stdout       journaled
    host's stderr 2 ◄── server's stderr       journaled
    host's stderr 2 ◄── recorder's notes      not journaled

The journal is the copy of the traffic from which the recorder, another process, makes the trace. Its notes
are its lines for the user.

*Order.* A chunk is read, its time is taken, it is forwarded, and the part that the receiver accepted is
appended to the journal before anything else is read. A peer can answer only after the chunk was forwarded,
and the relay reads the answer only after the chunk was appended. So no answer precedes its request in the
journal.

*Back-pressure.* A sink is the stream to one peer. Bytes that it does not accept immediately are kept as its
``rest``, at most one chunk, and nothing more is read for that peer until they are delivered. Only ``poll``
waits for peers, so one full direction never blocks the other.

*Kills.* A chunk is copied into a mapped file, the crash buffer (``crash_buffer.py``), before it is forwarded,
so that it is not lost if the relay is killed between forwarding and journaling.

*Ends.* The end of a stream is forwarded, and the other streams stay open: a client may close stdin and still
wait for answers as long as it likes. When a peer stops *reading*, the relay stops reading the stream that
goes to that peer, so that the writer gets the same broken pipe as without the relay.

*Exit.* The relay exits when the server has exited; ``server_life.py`` says when the relay ends the server.

The server's children may keep its pipes open after it has exited. The relay delivers the bytes that are in
the pipes then, and gives the children ``LINGER_S`` to finish.

When a host does not read, the relay waits until the server's bytes are delivered, as the server would have
waited in its last write. It does not wait for its own lines. On stderr these lines take room that the server
would have had, so at the end the relay enlarges the buffer of stderr, where the system allows it.

*Gate.* With a ``LineGate`` the bytes of both peers go to the gate instead, which holds messages until it has
decided about them, and calls ``deliver`` for those that may pass."""

from __future__ import annotations

import os
import select
import time

from mcpproxy.record.relay import journal as journals
from mcpproxy.record.relay.exit_status import LINGER_S, RecorderWait, exit_payload
from mcpproxy.record.relay.stdio.inheritance import release
from mcpproxy.record.relay.stdio.server_life import PosixServerLife
from mcpproxy.record.relay.stdio.sinks import RelaySource, Sink, inherited_sink, own_sink, widen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Final

    from mcpproxy.record.relay.crash_buffer import CrashBuffer
    from mcpproxy.record.relay.journal import Journal
    from mcpproxy.record.relay.stdio.forked_recorder import Recorder
    from mcpproxy.record.relay.stdio.inheritance import WrappedServer
    from mcpproxy.record.relay.stdio.line_gate import LineGate, MakeLineGate
    from mcpproxy.record.relay.stdio.signals import Signals
    from mcpproxy.record.relay.stdio.witness import Witness

CHUNK_BYTES: Final = 256 << 10
"""How many bytes are read at once without a gate. The server's pipes hold no more, so one read empties
them."""

PIPE_BYTES: Final = 64 << 10
"""How many bytes a pipe of Linux holds. After a read of at least as many, the server's pipes are enlarged to
a chunk."""

IDLE_MS: Final = 2
BUSY_S: Final = 0.05
"""The witness, a process that shows which signals went to the process group, is forked when the server has
sent its first bytes, when no bytes have come for ``IDLE_MS`` (milliseconds), or after ``BUSY_S`` at the
latest."""

NOT_JOURNALED: Final = journals.START  # 0, used as the kind of bytes that are forwarded but not recorded
BY_GATE: Final = -1
"""Used as the kind of bytes that a gate gives a peer and has recorded itself."""
_EOF_OF: Final = {
    journals.CLIENT: journals.CLIENT_EOF,
    journals.SERVER: journals.SERVER_EOF,
    journals.STDERR: journals.STDERR_EOF,
}
PEERS: Final = (journals.CLIENT, journals.SERVER)
"""The kinds of the bytes that client and server send."""

_BROKEN: Final = select.POLLERR | select.POLLHUP | select.POLLNVAL


class Relay(PosixServerLife):
    """The relay of one session. ``serve`` is its loop: it polls the descriptors and calls their handlers.

    The arguments are those of ``session_start.run``, and ``signals``, which receives the signals.
    """

    def __init__(
        self,
        journal: Journal | None,
        signals: Signals,
        grace_s: float,
        quiet: bool,
        make_gate: MakeLineGate | None = None,
    ) -> None:
        super().__init__(grace_s, quiet)
        self.journal = journal
        self.signals = signals
        self.finishing = False
        self.pending_lines: list[bytes] = []
        self.narrow_pipes: tuple[int, ...] = ()  # the server's pipes that could hold more at once
        self.own_bytes = 0  # bytes of lines of ours that stderr accepted; the host may not have read them
        self.has_widened = False
        self.poll = select.poll()
        self.handlers: dict[int, Callable[[int], None]] = {}
        self.sources: list[RelaySource] = []
        self.peers: list[Sink] = []  # the server's stdin and the host's stdout, once the server has started
        self.to_stderr = inherited_sink(2)
        self._watch_sink(self.to_stderr)
        self.register(signals.fd, lambda _: self._on_signals(signals), select.POLLIN)
        self.crash_buffer: CrashBuffer | None = None
        if journal is not None:
            journal.on_notice = self.say
        self.gate: LineGate | None = None if make_gate is None else make_gate(self)
        # A gate keeps chunks as ``bytes``. To make one that is larger than a pipe takes ten times as long as
        # the read.
        self.chunk_bytes = CHUNK_BYTES if make_gate is None else PIPE_BYTES

    def attach_server(self, server: WrappedServer) -> None:
        """Connect the server's pipes with the host's streams."""
        self.server = server
        to_server, to_client = own_sink(server.stdin), inherited_sink(1)
        self.peers = [to_server, to_client]
        self.narrow_pipes = (server.stdin, server.stdout)
        for sink in self.peers:
            self._watch_sink(sink)
        self._add_source(0, to_server, journals.CLIENT)
        self._add_source(server.stdout, to_client, journals.SERVER)
        self._add_source(server.stderr, self.to_stderr, journals.STDERR)

    def attach_recorder(self, recorder: Recorder) -> None:
        """Forward the lines of the recorder to stderr."""
        self.recorder = recorder
        self._add_source(recorder.notes, self.to_stderr, NOT_JOURNALED)

    def open_crash_buffer(self) -> None:
        """From now on, keep each chunk in the crash buffer until it is journaled."""
        # Imported late, so that the server's start does not wait for the import.
        from mcpproxy.record.relay.crash_buffer import CrashBuffer

        if self.journal is not None:
            try:
                self.crash_buffer = CrashBuffer(self.journal, CHUNK_BYTES)
            except OSError:
                pass  # the disk is full; then a kill may lose the last chunk

    def serve(self) -> int:
        self.open_crash_buffer()
        if self.gate is not None:
            self.gate.begin()
        self._relay_until_idle()
        witness = self._fork_witness()
        self.signals.start(witness.compare if witness is not None else None)
        while self.exit_code is None:
            if self.deadline is None:
                self._turn(None)
            else:
                self._turn(self.deadline - time.monotonic())
                self._end_when_due()
        if witness is not None:
            witness.end()
        self._drain()
        return self.exit_code

    def _relay_until_idle(self) -> None:
        """Relay until the server has sent bytes or no bytes come for ``IDLE_MS``, at most for ``BUSY_S``.

        Forking the witness takes half a millisecond. The first answer of a fast server must not wait for
        that; other servers need longer than ``IDLE_MS`` to answer."""
        busy_until_s = time.monotonic() + BUSY_S
        while (ready := self.poll.poll(IDLE_MS)) and time.monotonic() < busy_until_s:
            self._turn(0)
            if self.server is not None and any(fd == self.server.stdout for fd, _ in ready):
                break

    def _fork_witness(self) -> Witness | None:
        # Imported late, so that the server's start and the first answer do not wait for the import.
        from mcpproxy.record.relay.stdio.witness import Witness

        try:
            witness = Witness(self.signals.numbers)
        except OSError:  # too few files may be open
            return None
        self.register(witness.fd, lambda _: self._on_signals(self.signals), select.POLLIN)
        return witness

    def _turn(self, timeout_s: float | None) -> None:
        """Do what the gate has to do, wait for ready descriptors (at most ``timeout_s`` seconds; ``None``:
        without limit), handle the signals that have come, and call the descriptors' handlers."""
        handlers = self.handlers
        if self.gate is not None:
            timeout_s = self.gate.run_due(timeout_s)
        ready = self.poll.poll(None if timeout_s is None else max(0, timeout_s) * 1000)
        if self.signals.have_come:  # handled before bytes that came later, even if ``poll`` missed them
            self._on_signals(self.signals)
        for fd, events in ready:
            if fd in handlers:  # an earlier handler of this round may have closed the descriptor
                handlers[fd](events)

    def _drain(self) -> None:
        """Deliver the bytes that the server left in its pipes when it exited, unless a signal asks to
        exit."""
        deadline = time.monotonic() + LINGER_S
        self.signalled = False
        while self._is_host_behind() or any(source.fd != 0 and source.kind for source in self.sources):
            self._widen_stderr()
            host_is_behind, old_rest = self._is_host_behind(), self.to_stderr.rest
            # Wait without a limit for a host that does not read, as the server would have waited.
            self._turn(None if host_is_behind else deadline - time.monotonic())
            if not host_is_behind and old_rest is not None and self.to_stderr.rest is not old_rest:
                deadline = time.monotonic() + LINGER_S  # the host reads, so more may be delivered
            # One read empties a pipe, so a round in which the host had room has read all that was there.
            if self.signalled or (
                not host_is_behind and not self._is_host_behind() and time.monotonic() >= deadline
            ):
                break

    def _is_host_behind(self) -> bool:
        """Whether bytes of the server wait for the host to read, and not only because of our own lines."""
        stderr = self.to_stderr
        # Without our own lines, ``own_bytes`` more bytes of the server would have found room.
        if stderr.rest is not None and stderr.kind != NOT_JOURNALED and len(stderr.rest) > self.own_bytes:
            return True
        if self.gate is not None and self.gate.is_host_behind:
            return True
        return any(sink.rest is not None for sink in self.peers[1:])

    def _widen_stderr(self) -> None:
        """Enlarge the buffer of stderr once, to make up for the room that our own lines take."""
        if self.to_stderr.rest is not None and not self.has_widened:
            self.has_widened = True
            self.own_bytes = max(0, self.own_bytes - widen(self.to_stderr.fd))

    # The data path.

    def _on_readable(self, source: RelaySource) -> None:
        """Read a chunk from ``source`` and forward it."""
        sink = source.sink
        if sink.rest is not None:  # another source has filled the sink in this round
            return
        gate = self.gate
        try:
            buffer = self.crash_buffer if gate is None else None
            data = os.read(source.fd, self.chunk_bytes) if buffer is None else buffer.read(source.fd)
        except BlockingIOError:
            return
        except OSError:  # the socket was reset, or the terminal hung up
            data = b""
        now_ns = time.monotonic_ns()
        if len(data) >= PIPE_BYTES and self.narrow_pipes:
            for fd in self.narrow_pipes:
                widen(fd, self.chunk_bytes)
            self.narrow_pipes = ()
        if not data:
            self._on_end(source, now_ns)
        elif gate is not None and source.kind in PEERS:
            gate.take_bytes(source, now_ns, bytes(data))
        elif not self.deliver(sink, source.kind, now_ns, data):
            self.pause(sink)
        if self.host_gone and source.kind == journals.CLIENT:
            self._leave_host()

    def deliver(self, sink: Sink, kind: int, read_ns: int, data: bytes | memoryview) -> bool:
        """Write the part of ``data`` that fits, journal that part, and keep the rest in ``sink``.

        ``data`` is at most one chunk, which was read at ``read_ns``; ``kind`` is that of its journal record.
        If ``sink`` is broken, ``data`` is discarded.

        Returns:
            False if a rest is left.
        """
        crash_buffer = self.crash_buffer if kind > NOT_JOURNALED else None
        if crash_buffer is not None:
            crash_buffer.store(kind, read_ns, data)
        try:
            taken = sink.put(data)
        except BlockingIOError:
            taken = 0
        except OSError:
            taken = -1
        if taken == len(data):
            self.record(kind, read_ns, data)
            return True
        if taken <= 0 and crash_buffer is not None:
            crash_buffer.clear()
        if taken < 0:
            self._on_broken(sink)
            return True
        view = memoryview(data)
        rest = view[taken:] if type(data) is bytes else memoryview(bytes(view[taken:]))
        # Set ``rest`` first: ``record`` may write a line of our own, which must come after the end of
        # ``data``.
        sink.rest, sink.kind, sink.read_ns = rest, kind, read_ns
        if taken:
            self.record(kind, read_ns, view[:taken])
        return False

    def record(self, kind: int, at_ns: int, payload: bytes | memoryview = b"") -> None:
        """Append a record to the journal, if there is one, and wake the recorder if it sleeps.

        Bytes of the kind ``NOT_JOURNALED`` are only counted (``own_bytes``), those ``BY_GATE`` not even that.
        """
        if kind <= NOT_JOURNALED:
            self.own_bytes += 0 if kind == BY_GATE else len(payload)
            return
        if self.journal is None:
            return
        self.journal.append(kind, at_ns, payload)
        recorder = self.recorder
        if recorder is not None and recorder.asleep[0]:
            recorder.wake()

    def _on_sink(self, sink: Sink, events: int) -> None:
        """Close ``sink`` if it is broken; otherwise write its rest, for which it has room."""
        if events & _BROKEN:
            self._on_broken(sink)
        elif sink.rest is not None and self.deliver(sink, sink.kind, sink.read_ns, sink.rest) and sink.open:
            sink.rest = None
            self._resume(sink)

    def pause(self, sink: Sink) -> None:
        """Stop reading the sources of ``sink`` until it has room for its rest."""
        self._watch_sources(sink)
        self.poll.register(sink.fd, select.POLLOUT)

    def _resume(self, sink: Sink) -> None:
        """Read the sources of ``sink`` again, because its rest is written."""
        if self.gate is not None and not self.gate.run_queue(sink):
            return
        if not sink.open:  # the gate has just closed it
            return
        self.poll.register(sink.fd, sink.end_event)
        self._watch_sources(sink)
        if sink is self.to_stderr:
            self._write_pending_lines()
        elif self.host_gone and sink.number < 0:  # the server's stdin
            self._leave_host()

    # Ends.

    def _on_end(self, source: RelaySource, now_ns: int) -> None:
        """Handle the end of ``source``. Its sink has no rest: otherwise the source would not be read."""
        if self.gate is not None and source.kind in PEERS and not self.gate.take_end(source, now_ns):
            return
        self._close_source(source)
        if source.kind == NOT_JOURNALED:
            if not self.finishing:
                self.say("the recorder has stopped; the session goes on and the journal keeps the traffic")
            return
        self.record(_EOF_OF[source.kind], now_ns)
        if source.kind == journals.STDERR:
            return  # stderr stays open for our own lines
        self._close_sink(source.sink)
        if source.kind == journals.CLIENT:
            self.client_ended = True
            self._start_grace_period()

    def _on_broken(self, sink: Sink) -> None:
        """Close ``sink``, which nobody reads any more, and its sources, so that their writers get a broken
        pipe too. Only the recorder's notes are still read."""
        self._close_sink(sink)
        for source in list(self.sources):
            if source.sink is sink:
                if source.kind != NOT_JOURNALED:
                    self._close_source(source)
                else:
                    self.watch(source)  # it may have been paused
        if sink.number == 1:  # the host's stdout
            self.host_gone = True
            self._leave_host()
            self._start_grace_period()

    def _leave_host(self) -> None:
        """Close the server's stdin because the host is gone, once all bytes of the host are forwarded.

        A host may write and exit at once. Without the relay, these bytes would wait for the server in its
        stdin. Bytes that a gate holds back are not waited for: nobody is left who could get an answer.
        """
        from mcpproxy.base.ready import is_readable  # only at the end

        to_server = self.peers[0]
        if to_server.rest is not None:
            return  # this method is called again when the rest is written
        for source in self.sources:
            if source.kind == journals.CLIENT:
                if to_server.open and source.is_read and is_readable(source.fd):
                    return  # it is read in the next round
                self._close_source(source)
                break
        self._close_sink(to_server)

    def _close_source(self, source: RelaySource) -> None:
        """Stop reading ``source``, and close it."""
        if source in self.sources:
            self.sources.remove(source)
            self.unregister(source.fd)
            if source.fd == 0:
                release(0)
            else:
                os.close(source.fd)

    def _close_sink(self, sink: Sink) -> None:
        if sink.open:
            self.unregister(sink.fd)
            sink.close()

    def disconnect(self, kinds: Collection[int]) -> None:
        """Close the streams of the peers whose bytes become records of these kinds, as if they had ended."""
        for source in list(self.sources):
            if source.kind in kinds:
                sink = source.sink
                self._close_source(source)
                self._close_sink(sink)
        if journals.CLIENT in kinds:
            self.client_ended = True
        if len(kinds) == len(PEERS):
            self.host_gone = True  # so a server that does not exit at the end of stdin is ended
        self._start_grace_period()

    def finish(self, code: int | None, reason: str = "") -> None:
        if self.gate is not None:
            self.gate.stop()
        self.finishing = True
        unwritten, folders = b"", ()
        if self.journal is not None:
            folders = (self.journal.folder,)
            now_ns = time.monotonic_ns()
            self.record(journals.EXIT, now_ns, exit_payload(code, reason))
            unwritten = self.journal.close(now_ns)
            self.journal = None
        for source in list(self.sources):
            if source.kind != NOT_JOURNALED:
                self._close_source(source)
        for sink in self.peers:
            self._close_sink(sink)
        if self.recorder is not None:
            self._await_recorder(self.recorder, unwritten, folders)
        self._write_pending_lines()
        if self.gate is not None:
            self.gate.close()

    def _await_recorder(self, recorder: Recorder, unwritten: bytes, folders: tuple[str, ...]) -> None:
        """Tell the recorder that the session is over, and forward its last notes during the ``RecorderWait``.

        ``folders`` has the journal's folder; it is empty without a journal.
        """
        recorder.leave(unwritten)
        wait = RecorderWait(self.recorder_s, folders)
        while self.sources:  # only the recorder's notes are left, which end when the recorder exits
            left_s = wait.left_s()
            if left_s <= 0:
                wait.say_if_late(self.say)
                return
            self._widen_stderr()
            self._turn(left_s)

    # Lines of mcpproxy itself.

    def say(self, text: str) -> None:
        """Write one line to the host's stderr, never in the middle of a chunk and without waiting."""
        if self.quiet:
            return
        from mcpproxy.record.relay.stderr_line import (
            stderr_line,  # late, so that the server's start does not wait
        )

        self.pending_lines.append(stderr_line(text))
        self._write_pending_lines()

    def _write_pending_lines(self) -> None:
        while self.pending_lines and self.to_stderr.rest is None:
            if not self.deliver(self.to_stderr, NOT_JOURNALED, 0, self.pending_lines.pop(0)):
                self.pause(self.to_stderr)

    # Readiness.

    def _add_source(self, fd: int, sink: Sink, kind: int) -> RelaySource:
        """Begin to read ``fd`` for ``sink``; its bytes become journal records of this ``kind``."""
        source = RelaySource(fd, sink, kind)
        self.sources.append(source)
        if fd != 0:
            os.set_blocking(fd, False)
        self.register(fd, lambda _: self._on_readable(source), select.POLLIN)
        self.watch(source)
        return source

    def watch(self, source: RelaySource) -> None:
        """Read ``source`` if its sink has room for more and no gate holds it back."""
        is_read = source.sink.rest is None and not source.is_held
        if is_read != source.is_read:
            source.is_read = is_read
            if is_read:
                self.poll.register(source.fd, select.POLLIN)
            else:
                self.poll.unregister(source.fd)

    def _watch_sources(self, sink: Sink) -> None:
        for source in self.sources:
            if source.sink is sink:
                self.watch(source)

    def _watch_sink(self, sink: Sink) -> None:
        """Notice when nobody reads ``sink`` any more."""
        self.register(sink.fd, lambda events: self._on_sink(sink, events), sink.end_event)

    def register(self, fd: int, handler: Callable[[int], None], events: int) -> None:
        self.handlers[fd] = handler
        self.poll.register(fd, events)

    def unregister(self, fd: int) -> None:
        del self.handlers[fd]
        try:
            self.poll.unregister(fd)
        except KeyError:  # the descriptor was paused
            pass
