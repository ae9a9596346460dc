"""The relay: one loop over raw descriptors, between a host and the server it wraps.

    host's stdin  0 ──► server's stdin        journaled
    host's stdout 1 ◄── server's stdout       journaled
    host's stderr 2 ◄── server's stderr       journaled
    host's stderr 2 ◄── recorder's notes      not journaled

*Order.* A chunk is read, its time is taken, it is written on, and what the far side took is appended
to the journal before anything else is read. Whoever answers it can only have read it after it was
written, and we read the answer only after it was appended: so no answer stands before its question.

*Back-pressure.* What a peer does not take at once is kept, one chunk at most, and its source is not
read until it is gone. Nothing here waits for a peer except ``poll``, so both directions may be full.

*Kills.* What was read is held in shared memory (``hand.py``) until the next read, so that a relay
that is killed between forwarding and journaling leaves the chunk behind.

*Ends.* An end of stream travels on in its direction and nothing else ends with it: a client may close
stdin and still wait for answers, for as long as it likes. When somebody stops *reading*, we stop
reading too, so that the writer meets the same broken pipe as without us.

*Leaving.* The relay leaves when the server has. It ends the server itself in two cases only: the host
is gone (nobody reads our stdout), or it has sent us a signal and closed stdin. Then the server gets a
grace period, SIGTERM, another grace period, SIGKILL. A host that merely closed stdin is still there
and in charge; to it a slow server and a stubborn one look alike, and they do to us.

A server's children may hold its pipes when it has gone. What was in the pipes by then is delivered,
and they are given ``LINGER_S`` to finish; unwrapped, too, the host would have seen the server exit.
"""

from __future__ import annotations

import os
import select
import time

from mcpproxy.relay import journal as journals
from mcpproxy.relay.endings import GRACE_S, LINGER_S, RECORDER_S, exit_payload, refusal, shell_code
from mcpproxy.relay.sinks import (
    Sink,
    inherited_sink,
    occupy_standard,
    open_descriptors,
    own_sink,
    release,
)
from mcpproxy.relay.spawn import FORWARDED, fork_recorder, start_server

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from typing import Final

    from mcpproxy.relay.hand import Hand
    from mcpproxy.relay.journal import Journal
    from mcpproxy.relay.spawn import Recorder, RecorderMain, Server
else:
    import _signal as signal

CHUNK_BYTES: Final = 64 << 10
"""How much is read at once: all that a pipe holds, so that one read empties it."""

NOT_JOURNALED: Final = journals.START  # the kind of what is passed on but not recorded
_EOF_OF: Final = {
    journals.CLIENT: journals.CLIENT_EOF,
    journals.SERVER: journals.SERVER_EOF,
    journals.STDERR: journals.STDERR_EOF,
}
_BROKEN: Final = select.POLLERR | select.POLLHUP | select.POLLNVAL


class Source:
    """A descriptor that is read, where its bytes go, and the kind of journal record they become."""

    __slots__ = ("fd", "kind", "sink")

    def __init__(self, fd: int, sink: Sink, kind: int) -> None:
        self.fd = fd
        self.sink = sink
        self.kind = kind


def run(
    command: list[str],
    journal: Journal | None,
    recorder_main: RecorderMain | None,
    *,
    grace_s: float = GRACE_S,
    quiet: bool = False,
    greeting: str = "",
    make: Callable[[Journal | None, int, float, bool], Relay] | None = None,
) -> int:
    """Start ``command``, relay until it has gone, and return its exit code as a shell would.

    Args:
        command: program and arguments.
        journal: where to record, or ``None`` to relay only.
        recorder_main: what the forked recorder runs; called with the wake pipe and the shared byte.
        grace_s: how long the server may take to leave, once it has to.
        quiet: say nothing of our own on stderr.
        greeting: what to say there when the server has started.
        make: makes another kind of ``Relay`` in its place.

    Returns:
        The server's exit code, 128 + N when signal N ended it, 127 when there is no such command and
        126 when it cannot be run.
    """
    occupy_standard()
    inherited = [fd for fd in open_descriptors() if _inheritable(fd)]
    wakeup = _catch_signals()
    relay = (make or Relay)(journal, wakeup, grace_s, quiet)
    server: Server | None = None
    error: OSError | None = None
    try:
        server = start_server(command, inherited)
        relay.attach_server(server)
    except OSError as caught:
        error = caught
    if recorder_main is not None:
        try:
            relay.attach_recorder(fork_recorder(recorder_main, server, grace_s))
        except OSError as fault:
            relay.say(f"no recorder ({fault.strerror}); the next mcpproxy command files the journal")
    if error is not None:
        fact, code = refusal(command[0], error)
        relay.quiet = False  # a shell would not be quiet about it either
        relay.say(fact)
        relay.finish(None)
        return code
    if greeting:
        relay.say(greeting)
    relay.hold()
    code = relay.pump()
    relay.finish(code)
    return shell_code(code)


def _catch_signals() -> int:
    """Have signals written into a pipe, where the loop finds them; returns its reading end."""
    wakeup, written = os.pipe()
    os.set_blocking(wakeup, False)
    os.set_blocking(written, False)
    signal.set_wakeup_fd(written, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _noted)
    for number in FORWARDED:
        if signal.getsignal(number) != signal.SIG_IGN:  # one that the host has us ignore stays ignored
            signal.signal(number, _noted)
    return wakeup


def _noted(number: int, frame: object) -> None:
    """The handler of every signal: its number is in the wake-up pipe already."""


def _inheritable(fd: int) -> bool:
    try:
        return os.get_inheritable(fd)
    except OSError:  # the one that listed them
        return False


class Relay:
    """One session. ``pump`` is its loop; the handlers below it take one kind of readiness each."""

    def __init__(self, journal: Journal | None, wakeup: int, grace_s: float, quiet: bool) -> None:
        self.journal = journal
        self.grace_s = grace_s
        self.quiet = quiet
        self.server: Server | None = None
        self.recorder: Recorder | None = None
        self.exit_code: int | None = None  # below 0 for a signal, as os.waitstatus_to_exitcode has it
        self.host_gone = False
        self.client_ended = False
        self.signalled = False
        self.terminated = False  # the server was sent SIGTERM, by the host or by us
        self.finishing = False
        self.deadline: float | None = None  # when a server that has to leave is pressed on
        self.unsaid: list[bytes] = []
        self.poll = select.poll()
        self.handlers: dict[int, Callable[[int], None]] = {}
        self.sources: list[Source] = []
        self.peers: list[Sink] = []
        self.to_stderr = inherited_sink(2)
        self._watch(self.to_stderr)
        self._handle(wakeup, lambda _: self._on_signals(wakeup), select.POLLIN)
        self.hand: Hand | None = None
        if journal is not None:
            journal.tell = self.say

    def attach_server(self, server: Server) -> None:
        """Connect the server's pipes with the host's streams."""
        self.server = server
        to_server, to_client = own_sink(server.stdin), inherited_sink(1)
        self.peers = [to_server, to_client]
        for sink in self.peers:
            self._watch(sink)
        self._source(0, to_server, journals.CLIENT)
        self._source(server.stdout, to_client, journals.SERVER)
        self._source(server.stderr, self.to_stderr, journals.STDERR)

    def attach_recorder(self, recorder: Recorder) -> None:
        """Pass on what the recorder has to say."""
        self.recorder = recorder
        self._source(recorder.notes, self.to_stderr, NOT_JOURNALED)

    def hold(self) -> None:
        """Keep each chunk where a kill does not reach it, until the journal has it."""
        # Imported now: it costs what a server's start need not wait for.
        from mcpproxy.relay.hand import Hand

        if self.journal is not None:
            try:
                self.hand = Hand(self.journal.folder, CHUNK_BYTES)
            except OSError:
                pass  # a full disk: then a kill may cost the last chunk

    def pump(self) -> int:
        """Relay until the server has gone and what it said is delivered.

        Returns:
            Its exit code, negative when a signal ended it.
        """
        while self.exit_code is None:
            if self.deadline is None:
                self._serve(None)
            else:
                self._serve(self.deadline - time.monotonic())
                self._press()
        self._drain()
        return self.exit_code

    def _serve(self, timeout_s: float | None) -> None:
        handlers = self.handlers
        for fd, events in self.poll.poll(None if timeout_s is None else max(0, timeout_s) * 1000):
            if fd in handlers:  # an earlier one of this round may have closed it
                handlers[fd](events)

    def _drain(self) -> None:
        """Deliver what the server left in its pipes."""
        end = time.monotonic() + LINGER_S
        self.signalled = False
        while self._full() or any(source.fd != 0 and source.kind for source in self.sources):
            full = self._full()
            # A host that does not take its bytes is waited for, as the server would have waited.
            self._serve(None if full else end - time.monotonic())
            # One read empties a pipe, so a round that began with room has seen all there was.
            if self.signalled or (not full and not self._full() and time.monotonic() >= end):
                break

    def _full(self) -> bool:
        """Whether the host owes us room."""
        return any(sink.rest is not None for sink in (self.to_stderr, *self.peers[1:]))

    # The data path.

    def _on_readable(self, source: Source) -> None:
        sink = source.sink
        if sink.rest is not None:  # filled by another source in this same round
            return
        try:
            data = os.read(source.fd, CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:  # a reset socket, a terminal that hung up
            data = b""
        now = time.monotonic_ns()
        if self.hand is not None and source.kind and data:
            self.hand.take(source.kind, now, data)
        if not data:
            self._on_end(source, now)
        elif not self._deliver(sink, source.kind, now, data):
            self._pause(sink)

    def _deliver(self, sink: Sink, kind: int, read_ns: int, data: bytes | memoryview) -> bool:
        """Write what fits, journal that, keep the rest in ``sink``; whether nothing is left to do."""
        try:
            taken = sink.put(data)
        except BlockingIOError:
            taken = 0
        except OSError:
            self._on_broken(sink)
            return True
        if taken == len(data):
            self._record(kind, read_ns, data)
            return True
        view = memoryview(data)
        # Set before recording, which may have something to say: a line of ours must not come in between.
        sink.rest, sink.kind, sink.read_ns = view[taken:], kind, read_ns
        if taken:
            self._record(kind, read_ns, view[:taken])
        return False

    def _record(self, kind: int, at_ns: int, payload: bytes | memoryview = b"") -> None:
        if self.journal is None or kind == NOT_JOURNALED:
            return
        self.journal.append(kind, at_ns, payload)
        recorder = self.recorder
        if recorder is not None and recorder.asleep[0]:
            recorder.wake()

    def _on_sink(self, sink: Sink, events: int) -> None:
        if events & _BROKEN:
            self._on_broken(sink)
        elif sink.rest is not None and self._deliver(sink, sink.kind, sink.read_ns, sink.rest) and sink.open:
            sink.rest = None
            self._resume(sink)

    def _pause(self, sink: Sink) -> None:
        for source in self.sources:
            if source.sink is sink:
                self.poll.unregister(source.fd)
        self.poll.register(sink.fd, select.POLLOUT)

    def _resume(self, sink: Sink) -> None:
        self.poll.register(sink.fd, 0)
        for source in self.sources:
            if source.sink is sink:
                self.poll.register(source.fd, select.POLLIN)
        if sink is self.to_stderr:
            self._say_all()
        elif self.host_gone and sink.number < 0:
            self._close(sink)

    # Ends.

    def _on_end(self, source: Source, now_ns: int) -> None:
        """Nothing more will come. The sink has no rest: with one, the source is not read."""
        self._stop(source)
        if source.kind == NOT_JOURNALED:
            if not self.finishing:
                self.say("the recorder has stopped; the session goes on and the journal keeps it")
            return
        self._record(_EOF_OF[source.kind], now_ns)
        if source.kind == journals.STDERR:
            return  # ours stays open: there may be something left to say
        self._close(source.sink)
        if source.kind == journals.CLIENT:
            self.client_ended = True
            self._count_down()

    def _on_broken(self, sink: Sink) -> None:
        """Nobody reads there any more. We read no more for it, so its sender meets a broken pipe too."""
        self._close(sink)
        for source in list(self.sources):
            if source.sink is sink:
                if source.kind != NOT_JOURNALED:
                    self._stop(source)
                else:
                    self.poll.register(source.fd, select.POLLIN)  # it may have been paused
        if sink.number == 1:
            self.host_gone = True
            for source in self.sources:
                if source.kind == journals.CLIENT:
                    self._stop(source)
                    break
            if self.peers[0].rest is None:
                self._close(self.peers[0])
            self._count_down()

    def _stop(self, source: Source) -> None:
        if source in self.sources:
            self.sources.remove(source)
            self._forget(source.fd)
            if source.fd == 0:
                release(0)
            else:
                os.close(source.fd)

    def _close(self, sink: Sink) -> None:
        if sink.open:
            self._forget(sink.fd)
            sink.close()

    # The server's life.

    def _on_signals(self, wakeup: int) -> None:
        for number in os.read(wakeup, 64):
            if number == signal.SIGCHLD:
                self._reap()
            elif number in FORWARDED:
                self._forward(number)

    def _reap(self) -> None:
        if self.server is not None and self.exit_code is None:
            pid, status = os.waitpid(self.server.pid, os.WNOHANG)
            if pid:
                self.exit_code = os.waitstatus_to_exitcode(status)
        if self.recorder is not None and not self.recorder.reaped:
            pid, _ = os.waitpid(self.recorder.pid, os.WNOHANG)
            self.recorder.reaped = bool(pid)

    def _forward(self, number: int) -> None:
        self.signalled = True
        self._record(journals.SIGNAL, time.monotonic_ns(), FORWARDED[number].encode())
        if number == signal.SIGTERM:
            self.terminated = True
        if not (number == signal.SIGINT and _from_terminal()):
            self._kill(number)
        self._count_down()

    def _count_down(self) -> None:
        """Give the server its grace period, if it has to leave (see the top of this file)."""
        if self.deadline is None and (self.host_gone or (self.signalled and self.client_ended)):
            self.deadline = time.monotonic() + self.grace_s

    def _press(self) -> None:
        if self.deadline is not None and time.monotonic() >= self.deadline:
            self._kill(signal.SIGKILL if self.terminated else signal.SIGTERM)
            self.deadline = None if self.terminated else time.monotonic() + self.grace_s
            self.terminated = True

    def _kill(self, number: int) -> None:
        if self.server is not None and self.exit_code is None:  # not reaped, so the number is still its own
            os.kill(self.server.pid, number)

    def finish(self, code: int | None) -> None:
        """Close the journal and the peers' streams, then give the recorder a moment for the trace.

        ``code`` is the server's exit code, negative for a signal, ``None`` if it was never started.
        """
        self.finishing = True
        owed = b""
        if self.journal is not None:
            now = time.monotonic_ns()
            self._record(journals.EXIT, now, exit_payload(code))
            owed = self.journal.close(now)
            self.journal = None
        for source in list(self.sources):
            if source.kind != NOT_JOURNALED:
                self._stop(source)
        for sink in self.peers:
            self._close(sink)
        if self.recorder is not None:
            self._await_recorder(self.recorder, owed)
        self._say_all()

    def _await_recorder(self, recorder: Recorder, owed: bytes) -> None:
        recorder.leave(owed)
        if not recorder.reaped:
            os.kill(recorder.pid, signal.SIGCONT)
        end = time.monotonic() + RECORDER_S
        while self.sources:  # its notes are the last one, and end when it does
            left = end - time.monotonic()
            if left <= 0:
                self.say("the recorder is not done; the next mcpproxy command completes the trace")
                return
            self._serve(left)

    # What we have to say ourselves.

    def say(self, text: str) -> None:
        """One line on the host's stderr; never in the middle of a chunk, never waiting."""
        if self.quiet:
            return
        from mcpproxy.visible import visible  # by now the server runs

        self.unsaid.append(f"mcpproxy: {visible(text)}\n".encode())
        self._say_all()

    def _say_all(self) -> None:
        while self.unsaid and self.to_stderr.rest is None:
            if not self._deliver(self.to_stderr, NOT_JOURNALED, 0, self.unsaid.pop(0)):
                self._pause(self.to_stderr)

    # Readiness.

    def _source(self, fd: int, sink: Sink, kind: int) -> Source:
        source = Source(fd, sink, kind)
        self.sources.append(source)
        if fd != 0:
            os.set_blocking(fd, False)
        self._handle(fd, lambda _: self._on_readable(source), select.POLLIN)
        if sink.rest is not None:
            self.poll.unregister(fd)
        return source

    def _watch(self, sink: Sink) -> None:
        """Learn when nobody reads there any more: poll tells that even when asked for no event."""
        self._handle(sink.fd, lambda events: self._on_sink(sink, events), 0)

    def _handle(self, fd: int, handler: Callable[[int], None], events: int) -> None:
        self.handlers[fd] = handler
        self.poll.register(fd, events)

    def _forget(self, fd: int) -> None:
        del self.handlers[fd]
        try:
            self.poll.unregister(fd)
        except KeyError:  # paused
            pass


def _from_terminal() -> bool:
    """Whether a SIGINT is a Ctrl-C: the terminal sends it to the whole group, the server included."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
