"""The proxy in front of an HTTP server (upstream): one process, one loop, a `Tunnel` for each client
connection.

The modules of this package:

    listener            opens the socket to which clients connect
    tunnel              one client connection and its upstream connection: the data path
    pair                the two sockets of a tunnel: when each is read, and how both are closed
    socket              one of these sockets
    request_reader      reads what the client sends: finds heads, counts bodies
    request_head        parses the head of a request, strictly
    body_end            finds where a body ends
    route               decides where a request goes, and rewrites its head for that server
    guard               decides which requests and targets are allowed
    dial                opens the upstream connection (resolve: the server and its addresses, tls: TLS)
    reply               makes the proxy's own answers
    connection_fields   finds the header fields that are not forwarded, and the answer to an upgrade
    rewrite             rewrites addresses in answers that would lead the client past the proxy
    connection_records  writes the journal records of one connection
    stderr_log          writes lines to stderr
    loop                waits for descriptors and timers, and calls their handlers
    portable            this proxy for Windows
    proxy_interface     the types by which the proxy, its tunnels and gates use each other

This module accepts connections, receives signals, and owns the journal (the copy of the traffic) and the
recorder (the process that makes the trace from it).
"""

from __future__ import annotations

import errno
import os
import signal
import socket

from mcpproxy.base.json_string import quoted
from mcpproxy.record.relay import journal as journals
from mcpproxy.record.relay.crash_buffer import TurnBuffer
from mcpproxy.record.relay.exit_status import RecorderWait, exit_payload, no_recorder
from mcpproxy.record.relay.http.dial import Dialer
from mcpproxy.record.relay.http.loop import READ, Loop, Timers
from mcpproxy.record.relay.http.resolve import Resolver
from mcpproxy.record.relay.http.stderr_log import StderrLog
from mcpproxy.record.relay.http.tunnel import LONGEST_BYTES, Tunnel
from mcpproxy.record.relay.open_files import raise_limit
from mcpproxy.record.relay.stdio.forked_recorder import fork_recorder
from mcpproxy.record.relay.stdio.inheritance import occupy_standard, open_descriptors
from mcpproxy.record.relay.stdio.signals import ENDING, catch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    from mcpproxy.record.relay.http.dial import Sock
    from mcpproxy.record.relay.http.proxy_interface import MakeProxyGate, ProxyGate, Record, StoppableTunnel
    from mcpproxy.record.relay.http.rewrite import Rewriting
    from mcpproxy.record.relay.http.route import Router
    from mcpproxy.record.relay.http.tls import TlsClient, TlsServer
    from mcpproxy.record.relay.journal import Journal
    from mcpproxy.record.relay.spawned_recorder import SpawnedRecorder
    from mcpproxy.record.relay.stdio.forked_recorder import Recorder, RecorderMain

CONNECT_S: Final = 10.0
"""How long an upstream may take to accept a connection."""

RECORDER_S: Final = 5.0
"""How long the proxy waits for the recorder at its end: longer than on stdio, where a host waits for the
exit."""

_ACCEPTS_PER_TURN: Final = 64
_NO_SIGNAL: Final = b"\0"
"""Wakes the loop without a signal, for example because the resolver has an answer."""

_OTHER_FILES: Final = 8
"""How many files may be open besides those that are open at the start, and besides connections."""

# The errors by which the system says that it has no room for another connection.
_NO_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
ACCEPT_AGAIN_S: Final = 0.1
"""How long no client is accepted after the system or the proxy has reached a limit."""

_FAULTS_REPORTED: Final = 20
"""How many different faults (bugs in mcpproxy) are reported on stderr, each once. The journal has a note
about every fault, except one in the TLS handshake with a client."""
_UNREACHABLE_REPORTED: Final = 100
"""How many upstreams (servers) that cannot be reached are reported on stderr. One that is reached again does
not count any more."""


class Settings:
    """The settings of a proxy.

    Attributes:
        router: decides which server a request goes to.
        upstream: ``host:port`` of the only server, empty in forward mode.
        rewriting: which addresses in answers are rewritten, or ``None``.
        tls_up: TLS to upstream, or ``None``.
        tls_down: TLS to clients, or ``None``.
        connect_s: how long an upstream may take to accept a connection.
        recorder_s: how long the proxy waits at its end for the recorder to complete the trace.
        is_quiet: write no lines of the proxy itself to stderr.
        greetings: the lines to write to stderr when the proxy is ready.
        make_gate: makes the gate, which holds messages until it has decided whether they pass, or ``None``.
    """

    def __init__(self, router: Router, upstream: str = "") -> None:
        self.router = router
        self.upstream = upstream
        self.rewriting: Rewriting | None = None
        self.tls_up: TlsClient | None = None
        self.tls_down: TlsServer | None = None
        self.connect_s = CONNECT_S
        self.recorder_s = RECORDER_S
        self.is_quiet = False
        self.greetings: list[str] = []
        self.make_gate: MakeProxyGate | None = None


def run(
    settings: Settings, listener: socket.socket, journal: Journal | None, recorder_main: RecorderMain | None
) -> int:
    """Serve until SIGINT, SIGTERM or SIGHUP arrives. Return the exit code, which is 0.

    Args:
        settings: the settings of the proxy.
        listener: the socket to which clients connect, not blocking.
        journal: the journal, the copy of the traffic, to record in, or ``None`` to relay only.
        recorder_main: the function that the forked recorder runs (see ``fork_recorder``), or ``None`` to
            start no recorder.
    """
    occupy_standard()
    most_files = raise_limit()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if ignored, the recorder's process id may be reused
    proxy = Proxy(settings, listener, journal)

    def start_recorder() -> None:
        if recorder_main is not None:
            # ``None``: the proxy has started no server that the recorder would have to end.
            proxy.attach_recorder(fork_recorder(recorder_main, None, 0))
        allowed = max(1, (most_files - len(open_descriptors()) - _OTHER_FILES) // 2)
        proxy.most_clients = min(proxy.most_clients, allowed)

    return proxy.run(start_recorder, settings.greetings)


class Proxy:
    """All tunnels, and the objects that they share."""

    most_clients = 1 << 30
    """Clients beyond this number wait until others have gone. Each needs two descriptors."""

    def __init__(self, settings: Settings, listener: socket.socket, journal: Journal | None) -> None:
        self.loop = Loop(self._on_fault)
        self.timers = Timers(self._on_fault)
        self.router = settings.router
        self.upstream = settings.upstream
        self.rewriting = settings.rewriting
        # A pair of sockets and no pipe, because Windows waits for sockets only.
        self._wakeup, self._waking = socket.socketpair()
        for end in (self._wakeup, self._waking):
            end.setblocking(False)
        catch(ENDING, self._waking.fileno())
        self._open_stderr(settings.is_quiet)
        self._resolver = Resolver(self._wake, self._on_fault)
        self.dialer = Dialer(self.loop, self.timers, self._resolver, settings.tls_up, settings.connect_s)
        self._tls = settings.tls_down
        self._recorder_s = settings.recorder_s
        self._listener = listener
        self._journal = journal
        self.record: Record = _discard  # appends to the records of the turn, or to the journal
        self._turn_buffer: TurnBuffer | None = None
        self._recorder: Recorder | SpawnedRecorder | None = None
        self.tunnels: set[StoppableTunnel] = set()
        self.last_number = 0
        self._is_full = False  # clients wait until others have gone
        self._is_stopped = False
        self._is_stop_repeated = False  # a second signal to stop has come
        self._faults: set[str] = set()  # faults that were reported
        self._unreachable: set[str] = set()  # upstream addresses that were reported
        if journal is not None:
            journal.on_notice = self.stderr_log.say
            self.record = journal.append
            try:
                self._turn_buffer = TurnBuffer(journal, LONGEST_BYTES)
                self.record = self._turn_buffer.append
            except OSError:
                pass  # the disk is full; then each record is journaled before its bytes are forwarded
        self.loop.watch(self._wakeup.fileno(), READ, self._on_wakeup)
        self.loop.watch(listener.fileno(), READ, self._on_listener)
        self.gate: ProxyGate | None = None if settings.make_gate is None else settings.make_gate(self)

    def _open_stderr(self, is_quiet: bool) -> None:
        """Open stderr. `PortableProxy`, for systems without fork, overrides this."""
        self.stderr_log = StderrLog(self.loop, is_quiet)

    def attach_recorder(self, recorder: Recorder | SpawnedRecorder) -> None:
        """Wake this recorder from now on, and forward its lines to stderr."""
        self._recorder = recorder
        self.stderr_log.forward_notes(recorder.notes, self._on_recorder_gone)

    def run(self, start_recorder: Callable[[], None], greetings: list[str]) -> int:
        """Start the recorder, write ``greetings`` to stderr, and serve until a signal to stop arrives. Return
        the exit code, which is 0.
        """
        try:
            start_recorder()
        except OSError as fault:
            self.stderr_log.say(no_recorder(fault))
        for greeting in greetings:
            self.stderr_log.say(greeting)
        while not self._is_stopped:
            self._turn(None)
        self.finish()
        return 0

    def _turn(self, limit_s: float | None) -> None:
        """Run due timers and what the gate has to do, journal the records of the turn before, wait for ready
        descriptors (at most ``limit_s`` seconds; ``None``: without limit), and call their handlers."""
        left_s = self.timers.run()
        if limit_s is not None:
            left_s = limit_s if left_s is None else min(left_s, limit_s)
        if self.gate is not None:
            left_s = self.gate.run_due(left_s)
        self._journal_turn()
        self.loop.turn(left_s)

    def _journal_turn(self) -> None:
        """Let the gate read the records of the last turn; then journal them, and wake the recorder if it
        sleeps."""
        if self.gate is not None:
            self.gate.read_recorded()
        if self._turn_buffer is not None:
            try:
                self._turn_buffer.flush()
            except Exception as fault:
                self._turn_buffer.lose("a fault of mcpproxy")
                self._on_fault(self._journal_turn, fault)
        recorder = self._recorder
        if recorder is not None and recorder.asleep[0]:
            recorder.wake()

    def finish(self) -> None:
        """End all connections, close the journal, wait a moment for the recorder to complete the trace, and
        close the gate."""
        self.loop.forget(self._listener.fileno())
        self._listener.close()
        for tunnel in list(self.tunnels):
            try:
                tunnel.stop("mcpproxy was told to stop")
            except Exception as fault:
                self._on_fault(tunnel.stop, fault)
        now_ns = journals.now_ns()
        unwritten = b""
        if self._journal is not None:
            self._journal_turn()
            if self._turn_buffer is not None:
                self._turn_buffer.close()
                self._turn_buffer = None
            self._journal.append(journals.EXIT, now_ns, exit_payload(0))
            unwritten = self._journal.close(now_ns)
            self.record = _discard
        self._leave_recorder(unwritten)
        if self.gate is not None:
            self.gate.close()

    def _leave_recorder(self, unwritten: bytes) -> None:
        """Tell the recorder, if there is one, that the proxy is done, and forward its last notes."""
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        recorder.leave(unwritten)
        wait = RecorderWait(self._recorder_s, () if self._journal is None else (self._journal.folder,))
        while self.stderr_log.has_notes and not self._is_stop_repeated:
            left_s = wait.left_s()
            if left_s <= 0:
                wait.say_if_late(self.stderr_log.say)
                return
            self._turn(left_s)

    # Called by tunnels.

    def on_upstream_failed(self, address: str, why: str) -> None:
        """Report on stderr that ``address`` cannot be reached, unless that is reported already, or
        ``_UNREACHABLE_REPORTED`` other addresses are."""
        if address not in self._unreachable and len(self._unreachable) < _UNREACHABLE_REPORTED:
            self._unreachable.add(address)
            self.stderr_log.say(why)

    def on_upstream_reached(self, address: str) -> None:
        """Note that ``address`` was reached, so that the next failure is reported again."""
        self._unreachable.discard(address)

    # Readiness.

    def _on_listener(self, events: int) -> None:
        del events
        for _ in range(self._clients_to_accept()):
            try:
                sock, address = self._listener.accept()
            except BlockingIOError:
                self._is_full = False  # nobody waits
                return
            except OSError as error:
                if error.errno in _NO_DESCRIPTORS:
                    fact = f"no more connections for now ({error.strerror})"
                    self._pause_accepting(f"{fact}; raise the limit of open files")
                    return
                continue  # the client has closed already
            try:
                self._admit(sock, address[:2])
            except OSError:  # the client has closed already
                sock.close()
            except Exception as fault:
                sock.close()
                self._on_fault(self._admit, fault)
        if not self._clients_to_accept():
            fact = f"{len(self.tunnels)} clients are all that this system allows; others wait"
            self._pause_accepting(fact)

    def _clients_to_accept(self) -> int:
        """Return how many clients may be accepted in this turn, at most ``_ACCEPTS_PER_TURN``."""
        # Two sockets are watched beside those of clients: the listener, and the one that wakes the loop.
        clients = max(len(self.tunnels), (self.loop.watched - 2) // 2)
        return max(0, min(_ACCEPTS_PER_TURN, self.most_clients - clients))

    def _admit(self, sock: socket.socket, address: tuple[str, int]) -> None:
        """Begin the tunnel of a new client, after its TLS handshake if there is one."""
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        host, port = address
        peer = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        if self._tls is None:
            self._begin_tunnel(sock, peer)
        else:
            self._tls.handshake(self.loop, self.timers, sock, lambda tls: self._begin_tunnel(tls, peer))

    def _begin_tunnel(self, sock: Sock, peer: str) -> None:
        tunnel = Tunnel(self, sock, peer)
        self.tunnels.add(tunnel)
        try:
            tunnel.start()
        except Exception as fault:
            self._on_fault(tunnel.start, fault)

    def _pause_accepting(self, fact: str) -> None:
        """Let new clients wait in the backlog for a moment.

        ``fact``, the reason, is written to stderr; then no further reason is, until no client waits any more.
        """
        if not self._is_full:
            self._is_full = True
            self.stderr_log.say(fact)
        self.loop.change(self._listener.fileno(), 0)
        self.timers.start(ACCEPT_AGAIN_S, self._resume_accepting)

    def _resume_accepting(self) -> None:
        if not self._is_stopped:
            self.loop.change(self._listener.fileno(), READ)

    def _on_fault(self, work: Callable[..., None], fault: Exception) -> None:
        """Limit the effect of a fault (a bug in mcpproxy) to one connection.

        ``work`` is the callback that raised. If ``work`` is a method of an object with ``abandon``, that
        object belongs to one connection, which is closed. Otherwise nothing is closed."""
        why = f"a fault of mcpproxy: {fault!r}{_place_of(fault)}"
        abandon: Callable[[str], None] | None = getattr(getattr(work, "__self__", None), "abandon", None)
        if why not in self._faults and len(self._faults) < _FAULTS_REPORTED:
            self._faults.add(why)
            what = "the proxy goes on after" if abandon is None else "a connection was closed,"
            self.stderr_log.say(f"{what} {why}; please report it")
        if abandon is None:
            note = f'{{"what":"fault","why":{quoted(why)}}}'
            self.record(journals.NOTE, journals.now_ns(), note.encode("utf-8", "replace"), 0)
            return
        try:
            abandon(why)
        except Exception as second:
            self._on_fault(self._on_fault, second)  # no connection is left to abandon

    def _on_wakeup(self, events: int) -> None:
        """Handle the signals that have arrived, and the answers of the resolver."""
        del events
        try:
            numbers = self._wakeup.recv(64)
        except BlockingIOError:
            return
        for number in numbers:
            if number in ENDING:
                self._stop(number)
        self._resolver.deliver()

    def _stop(self, number: int) -> None:
        """Handle a signal to stop."""
        self._is_stop_repeated = self._is_stopped
        self._is_stopped = True
        self.record(journals.SIGNAL, journals.now_ns(), ENDING[number].encode(), 0)

    def _on_recorder_gone(self) -> None:
        if not self._is_stopped:
            self.stderr_log.say(
                "the recorder has stopped; the proxy goes on and the journal keeps the traffic"
            )

    def _wake(self) -> None:
        try:
            self._waking.send(_NO_SIGNAL)
        except BlockingIOError:  # the buffer is full, so the loop wakes up anyway
            pass


def _discard(kind: int, at_ns: int, payload: bytes, number: int) -> None:
    """Record nothing: there is no journal, or it is closed."""


def _place_of(fault: Exception) -> str:
    """Return the file and line where ``fault`` was raised, in brackets; empty if they are not known."""
    frame = fault.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return (
        f" ({os.path.basename(frame.tb_frame.f_code.co_filename)}, line {frame.tb_lineno})" if frame else ""
    )
