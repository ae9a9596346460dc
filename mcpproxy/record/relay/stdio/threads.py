"""The relay for systems that have no fork and cannot poll pipes (Windows): threads and blocking calls.

Each of the three streams between the server and the host (the program that started mcpproxy) has its own
thread; other threads wait for the server, receive signals, and serve the recorder, the process that makes the
trace. Unlike in the loop of ``relay.py``, a chunk is copied into the journal *before* it is forwarded. So no
answer precedes its request in the journal: a peer cannot answer before the request is forwarded, and by then
the request is journaled. A lock around the journal puts the chunks of all threads in one order. The cost is a
delay of a few microseconds, and the last chunk may be recorded although nobody read it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import IO, Final

from mcpproxy.record.relay import journal as journals
from mcpproxy.record.relay.exit_status import (
    GRACE_S,
    LINGER_S,
    RecorderWait,
    exit_payload,
    recorder_s,
    shell_code,
)
from mcpproxy.record.relay.journal import Journal
from mcpproxy.record.relay.spawned_recorder import SpawnedRecorder
from mcpproxy.record.relay.stderr_line import stderr_line
from mcpproxy.record.relay.stdio.inheritance import occupy_standard, release
from mcpproxy.record.relay.stdio.server_life import ServerLife
from mcpproxy.record.relay.stdio.signals import ENDING, catch, name_of

CHUNK_BYTES: Final = 64 << 10
"""How many bytes are read at once."""


def run(
    command: list[str],
    journal: Journal | None,
    recorder: list[str] | None,
    *,
    grace_s: float = GRACE_S,
    quiet: bool = False,
    greeting: str = "",
    is_awaited: bool = False,
) -> int:
    """Start ``command``, relay until it has exited, and return its exit code as a shell would.

    Arguments and result are those of ``relay.stdio.session_start.run``, without ``make_gate`` and
    ``folders``, and except ``recorder``: the command that starts the recorder, or ``None`` to start none. On
    Windows the result is the server's own code, as a signed number."""
    occupy_standard()
    _make_binary()
    relay = ThreadedRelay(journal, grace_s, quiet)
    relay.recorder_s = recorder_s(is_awaited=is_awaited)
    error = None
    try:
        relay.start_server(command)
    except OSError as caught:
        error = caught
    return _own_code(relay.run(command, error, lambda: relay.start_recorder(recorder), greeting))


class ThreadedRelay(ServerLife):
    """One session: the server, the threads between it and the host, and the journal that all threads
    share."""

    def __init__(self, journal: Journal | None, grace_s: float, quiet: bool) -> None:
        super().__init__(grace_s, quiet)
        self.journal = journal
        self.lock = threading.RLock()  # reentrant: the journal may call say() while it appends
        self.changed = threading.Event()  # set when the server has exited, or may have got a deadline
        self.server: subprocess.Popen[bytes] | None = None
        self.recorder: SpawnedRecorder | None = None
        self.notes: threading.Thread | None = None
        self.output: list[threading.Thread] = []
        self.finished = False
        if journal is not None:
            journal.on_notice = self.say

    def start_server(self, command: list[str]) -> None:
        """Start the server and the threads between it and the host.

        Raises:
            OSError: the program does not exist or cannot be run.
        """
        server = _start_process(command)
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stderr is not None
        self.server = server
        self._receive_signals()
        stdin, stdout, stderr = server.stdin, server.stdout, server.stderr
        _start_thread(lambda: self._client_to_server(stdin))
        _start_thread(self._await_server)
        self.output = [
            _start_thread(lambda: self._server_to_client(stdout)),
            _start_thread(lambda: self._server_to_stderr(stderr)),
        ]

    def start_recorder(self, command: list[str] | None) -> None:
        """Start the recorder, if there is a command for that, and the thread that forwards its notes.

        Raises:
            OSError: the recorder cannot be started.
        """
        if command is not None:
            self.recorder = recorder = SpawnedRecorder(command)
            self.notes = _start_thread(lambda: self._forward_notes(recorder.notes))

    def serve(self) -> int:
        assert self.server is not None
        while self.server.returncode is None:
            self.changed.wait(None if self.deadline is None else max(0, self.deadline - time.monotonic()))
            self.changed.clear()
            self._end_when_due()
        deadline = time.monotonic() + LINGER_S
        for thread in self.output:
            thread.join(max(0, deadline - time.monotonic()))
        return self.server.returncode

    def finish(self, code: int | None, reason: str = "") -> None:
        now_ns = journals.now_ns()
        self._record(journals.EXIT, now_ns, exit_payload(code, reason))
        with self.lock:
            self.finished = True
            unwritten = b"" if self.journal is None else self.journal.close(now_ns)
        release(1)
        if self.recorder is not None and self.notes is not None:
            self.recorder.leave(unwritten)
            wait = RecorderWait(self.recorder_s, () if self.journal is None else (self.journal.folder,))
            while self.notes.is_alive() and (left_s := wait.left_s()) > 0:
                self.notes.join(left_s)
            if self.notes.is_alive():
                wait.say_if_late(self.say)

    def say(self, text: str) -> None:
        if not self.quiet:
            _write_all(2, stderr_line(text))

    # The functions that the threads run.

    def _client_to_server(self, stdin: IO[bytes]) -> None:
        if self._forward_bytes(0, stdin.fileno(), journals.CLIENT):
            self._record(journals.CLIENT_EOF, journals.now_ns())
            self.client_ended = True
        else:
            release(0)  # the server does not read any more, so the client must get a broken pipe
        _close_stream(stdin)
        self._start_grace_period()

    def _server_to_client(self, stdout: IO[bytes]) -> None:
        if self._forward_bytes(stdout.fileno(), 1, journals.SERVER):
            self._record(journals.SERVER_EOF, journals.now_ns())
            release(1)
        else:
            self.host_gone = True
            self._start_grace_period()
        _close_stream(stdout)

    def _server_to_stderr(self, stderr: IO[bytes]) -> None:
        if self._forward_bytes(stderr.fileno(), 2, journals.STDERR):
            self._record(journals.STDERR_EOF, journals.now_ns())
        _close_stream(stderr)

    def _forward_notes(self, notes: int) -> None:
        while data := _read_chunk(notes):
            _write_all(2, data)
        if not self.finished:
            self.say("the recorder has stopped; the session goes on and the journal keeps the traffic")

    def _forward_bytes(self, source: int, sink: int, kind: int) -> bool:
        """Forward until ``source`` ends (true) or nobody reads ``sink`` any more (false)."""
        while data := _read_chunk(source):
            self._record(kind, journals.now_ns(), data)
            if not _write_all(sink, data):
                return False
        return True

    def _record(self, kind: int, at_ns: int, payload: bytes = b"") -> None:
        with self.lock:
            if self.journal is None or self.finished:
                return
            self.journal.append(kind, at_ns, payload)
        if self.recorder is not None:
            self.recorder.wake()

    # The life of the server.

    def _await_server(self) -> None:
        """Wait until the server has exited, and wake the main thread."""
        assert self.server is not None
        self.server.wait()
        self.changed.set()

    def _receive_signals(self) -> None:
        """Handle signals in a thread. On Windows, no signal interrupts the main thread while it waits."""
        reader, writer = socket.socketpair()
        writer.setblocking(False)
        catch(ENDING, writer.fileno())

        def receive() -> None:
            with writer:  # keeps the socket open as long as the thread runs
                while numbers := reader.recv(64):
                    for number in numbers:
                        self._forward_signal(number)

        _start_thread(receive)

    def _forward_signal(self, number: int) -> None:
        """Handle a signal: record it, and forward it to the server."""
        self.signalled = True
        self._record(journals.SIGNAL, journals.now_ns(), name_of(number).encode())
        self.terminated = self.terminated or number == signal.SIGTERM
        if sys.platform != "win32":  # on Windows the console sends the signal to the server as well
            self.kill(number)
        self._start_grace_period()

    def _start_grace_period(self) -> None:
        super()._start_grace_period()
        self.changed.set()  # a deadline may have been set

    def kill(self, number: int) -> None:
        if self.server is not None and self.server.returncode is None:
            try:
                self.server.send_signal(number)
            except OSError:  # the server has exited meanwhile
                pass


def _own_code(code: int) -> int:
    """Return the exit code by which this process passes on the server's."""
    if sys.platform != "win32":
        return shell_code(code)
    # Windows has codes of 32 bits (0xC0000005 for a crash). Python can exit with them as signed numbers only.
    return code - (1 << 32) if code >> 31 else code


def _start_process(command: list[str]) -> subprocess.Popen[bytes]:
    """Start the server with pipes for its three streams.

    Raises:
        OSError: the program does not exist or cannot be run.
    """
    pipe = subprocess.PIPE
    if sys.platform != "win32":
        return subprocess.Popen(command, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, close_fds=False)
    from mcpproxy.record.relay.stdio import job_object, windows_command

    program, line = windows_command.prepare_command(command)
    # By default (close_fds), the server gets its three streams only. It must not keep the host's open.
    server = subprocess.Popen(line, bufsize=0, executable=program, stdin=pipe, stdout=pipe, stderr=pipe)
    job_object.bind(int(server._handle))  # pyright: ignore # no public name for it
    return server


def _start_thread(work: Callable[[], None]) -> threading.Thread:
    """Start a daemon thread, because a thread that blocks in a read must not keep the process alive."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def _read_chunk(fd: int) -> bytes:
    try:
        return os.read(fd, CHUNK_BYTES)
    except OSError:
        return b""


def _write_all(fd: int, data: bytes) -> bool:
    """Write all of ``data``, however long that takes; return false if nobody reads ``fd`` any more."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except OSError:
        return False
    return True


def _close_stream(stream: IO[bytes]) -> None:
    try:
        stream.close()
    except OSError:
        pass


def _make_binary() -> None:
    """On Windows, keep the C library from translating line ends."""
    if sys.platform == "win32":
        import msvcrt

        for fd in (0, 1, 2):
            msvcrt.setmode(fd, os.O_BINARY)
