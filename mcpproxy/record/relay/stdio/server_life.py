"""The life of a wrapped server: the signals that it gets, when it is stopped, and when it has to exit.

The host is the program that started mcpproxy. Without a gate, the relay ends the server in two cases only:
the host is gone (nobody reads the relay's stdout), or it has both sent a signal that asks the server to exit
and closed stdin. Then the server gets a grace period, SIGTERM, another grace period and SIGKILL; if the host
has sent SIGTERM already, only one grace period and SIGKILL. A host that has only closed stdin decides for
itself how long it waits; the relay cannot distinguish a slow server from one that will never exit.

When the server stops because of SIGTSTP (Ctrl-Z, or sent to the relay), the relay stops as well: a shell
watches the relay, not the server. When another process has stopped the server, the relay keeps running,
because that process will continue the server but not the relay."""

from __future__ import annotations

import os
import time

from mcpproxy.record.relay import journal as journals
from mcpproxy.record.relay.exit_status import UNREAD_S, no_recorder, recorder_s
from mcpproxy.record.relay.stdio.signals import LEAVING, name_of, stop

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from typing import Final

    from mcpproxy.record.relay.stdio.forked_recorder import Recorder
    from mcpproxy.record.relay.stdio.inheritance import WrappedServer
    from mcpproxy.record.relay.stdio.signals import Signals
else:
    import _signal as signal

STOP_S: Final = 1.0
"""How long after SIGTSTP a stop of the server still makes the relay stop."""


_KILL: Final[int] = getattr(signal, "SIGKILL", signal.SIGTERM)
"""The signal that ends the server at once. Windows has only one way to end a process, and every signal uses
it."""


class ServerLife:
    """The part that is the same on every system: it starts the recorder (the process that makes the trace),
    and ends the server when it has to exit.

    ``grace_s`` is how long one grace period is. With ``quiet``, mcpproxy writes no line of its own, except
    that the server could not be started.
    """

    def __init__(self, grace_s: float, quiet: bool) -> None:
        self.grace_s = grace_s
        self.quiet = quiet
        self.recorder_s = UNREAD_S  # how long the end waits for the recorder
        self.host_gone = False  # nobody reads our stdout any more
        self.client_ended = False  # the host has closed our stdin
        self.signalled = False  # the host has sent a signal that asks the server to exit
        self.terminated = False  # the server was sent SIGTERM, by the host or by us
        self.deadline: float | None = None  # when a server that has to exit gets the next signal

    def run(
        self,
        command: list[str],
        error: OSError | None,
        start_recorder: Callable[[], None],
        greeting: str,
    ) -> int:
        """Start the recorder, relay, and return the server's exit code.

        ``error`` says why the server ``command`` was not started. ``greeting``, unless it is empty, is
        written to stderr first. The code is negative if a signal ended the server, 127 when there is no such
        command and 126 when it cannot be run.
        """
        try:
            start_recorder()
        except OSError as fault:
            self.say(no_recorder(fault))
        if error is not None:
            from mcpproxy.base.system_words import start_failure, start_failure_reason
            from mcpproxy.record.relay.stderr_line import StderrEvent

            reason, code = start_failure_reason(command[0], error)
            is_quiet, self.quiet = self.quiet, False  # a shell would report this failure too
            self.say(StderrEvent(start_failure(command[0], error), "error", "error"))
            self.quiet = is_quiet
            self.finish(None, reason)
            return code
        if greeting:
            self.say(greeting)
        code = self.serve()
        if code and not (self.client_ended or self.signalled or self.host_gone):
            # The host has not asked the server to exit, and sees at once that the streams end. So wait longer
            # for the recorder, which may have just started: its summary says how the server failed.
            self.recorder_s = recorder_s(is_awaited=True)
        self.finish(code)
        return code

    def serve(self) -> int:
        """Relay until the server has exited and its output is delivered.

        Returns:
            The server's exit code, negative if a signal ended it.
        """
        raise NotImplementedError

    def finish(self, code: int | None, reason: str = "") -> None:
        """Close the journal and the peers' streams, then wait a moment for the recorder to complete the
        trace.

        ``code`` is the server's exit code, negative for a signal, ``None`` if it was never started, for this
        ``reason``.
        """
        raise NotImplementedError

    def say(self, text: str) -> None:
        """Write one line to the host's stderr, unless the relay is ``quiet``."""
        raise NotImplementedError

    def kill(self, number: int) -> None:
        """Send the server a signal, if it is still running."""
        raise NotImplementedError

    def _start_grace_period(self) -> None:
        """Begin the grace period, if the server has to exit (see the top of this file)."""
        if self.deadline is None and (self.host_gone or (self.signalled and self.client_ended)):
            self.deadline = time.monotonic() + self.grace_s

    def _end_when_due(self) -> None:
        """Send the server SIGTERM, or later SIGKILL, if a grace period is over."""
        if self.deadline is not None and time.monotonic() >= self.deadline:
            self.kill(_KILL if self.terminated else signal.SIGTERM)
            self.deadline = None if self.terminated else time.monotonic() + self.grace_s
            self.terminated = True


class PosixServerLife(ServerLife):
    """The server and the recorder as child processes. ``exit_code`` is ``None`` while the server runs, and
    negative after a signal."""

    def __init__(self, grace_s: float, quiet: bool) -> None:
        super().__init__(grace_s, quiet)
        self.server: WrappedServer | None = None
        self.recorder: Recorder | None = None
        self.exit_code: int | None = None
        self.stops_until = 0.0  # if the server stops before this time, so does the relay

    def record(self, kind: int, at_ns: int, payload: bytes | memoryview = b"") -> None:
        raise NotImplementedError

    def _on_signals(self, signals: Signals) -> None:
        for number, is_received in signals.read():
            if number == signal.SIGCHLD:
                self._reap_children()
            else:
                self._forward_signal(number, is_received, number in signals.ignored)

    def _poll_server(self, how: int) -> bool:
        """Set ``exit_code`` if the server has ended. Otherwise return whether it was stopped, which the
        system reports only if ``how`` is WUNTRACED; with 0, return false."""
        if self.server is None or self.exit_code is not None:
            return False
        pid, status = os.waitpid(self.server.pid, os.WNOHANG | how)
        if pid and (os.WIFEXITED(status) or os.WIFSIGNALED(status)):
            self.exit_code = os.waitstatus_to_exitcode(status)
            if self.recorder is not None:
                self.recorder.asleep[1] = 1  # tells the recorder that the server is reaped
            return False
        return bool(pid)

    def _reap_children(self) -> None:
        """Notice whether the server or the recorder has ended. If the server was stopped within ``STOP_S``
        after SIGTSTP, stop as well."""
        may_stop = time.monotonic() < self.stops_until
        if self._poll_server(os.WUNTRACED if may_stop else 0):
            self.stops_until = 0
            stop()
        if self.recorder is not None and not self.recorder.reaped:
            pid, _ = os.waitpid(self.recorder.pid, os.WNOHANG)
            self.recorder.reaped = bool(pid)

    def _forward_signal(self, number: int, is_received: bool, is_ignored: bool) -> None:
        """Record a signal, and forward it to the server unless that has received it already
        (``is_received``).

        A signal that was ignored when mcpproxy started (``is_ignored``) does not ask the server to exit.
        """
        self.record(journals.SIGNAL, time.monotonic_ns(), name_of(number).encode())
        if number in LEAVING and not is_ignored:
            self.signalled = True
        if number == signal.SIGTERM and not is_ignored:
            self.terminated = True
        if not is_received:
            self.kill(number)
        if number == signal.SIGTSTP:
            self.stops_until = time.monotonic() + STOP_S
            self._reap_children()
        self._start_grace_period()

    def kill(self, number: int) -> None:
        # The server is not reaped yet, so the process id is still the server's.
        if self.server is not None and self.exit_code is None:
            os.kill(self.server.pid, number)
