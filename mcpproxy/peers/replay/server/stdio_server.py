"""Replay a recorded server on stdin and stdout: read lines, and write the messages that are due.

One thread reads and the main thread writes. With passthrough, requests that the recording does not answer go
to a real server, the server behind the recording. After the end of stdin the replay still waits for the
answers of that server, for ``_ANSWER_WAIT_NS`` at most, because a client in a pipeline closes its side early.
"""

import heapq
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final, TypeAlias

from mcpproxy.peers.replay.server.engine import ReplayEngine
from mcpproxy.peers.replay.server.live_messages import OutgoingMessage
from mcpproxy.peers.replay.server.passthrough import Passthrough, PassthroughProcess
from mcpproxy.peers.replay.whole_lines import WholeLines

_CHUNK_BYTES: Final = 1 << 16
_ANSWER_WAIT_NS: Final = 5_000_000_000
"""How long the server behind the recording may still take to answer when the session is over."""

_Event: TypeAlias = tuple[str, bytes | None, int]
"""Origin (``client``, ``server`` or ``signal``), a line or ``None`` at the end, monotonic time in ns."""


class StdioReplayServer:
    """Serves one client. ``passed_on`` counts the requests passed on to ``command``.

    ``command`` starts the server behind the recording; it is empty if misses are answered with errors.
    ``log`` is called with each line for the user.
    """

    def __init__(
        self,
        engine: ReplayEngine,
        log: Callable[[str], None],
        command: Sequence[str] = (),
        *,
        read_fd: int = 0,
        write_fd: int = 1,
    ) -> None:
        self.engine: Final = engine
        self._log: Final = log
        self._command: Final = command
        self._read_fd: Final = read_fd
        self._write_fd: Final = write_fd
        self._events: Final[SimpleQueue[_Event]] = SimpleQueue()
        # A heap of messages that wait: (when to send in ns, number in the order of queueing, message).
        self._waiting_messages: Final[list[tuple[int, int, OutgoingMessage]]] = []
        self._queued_count = 0
        self._is_stopped = False
        self._passthrough: Final = Passthrough()
        self._server: PassthroughProcess | None = None
        self.passed_on = 0

    def run(self) -> None:
        """Serve until stdin ends, stdout is closed, SIGTERM arrives, or the engine says that it is over.

        Raises:
            McpProxyError: ``command`` cannot be started, which is tried at the first miss.
        """
        threading.Thread(target=self._read_client, name="client", daemon=True).start()
        with suppress(ValueError):  # not in the main thread
            signal.signal(signal.SIGTERM, self._on_signal)
        try:
            self._send_messages(self.engine.begin(), time.monotonic_ns())
            while self._process_next():
                pass
            self._await_unanswered()
        except BrokenPipeError:
            pass
        finally:
            if self._server is not None:
                self._server.end()

    def _on_signal(self, number: int, frame: object) -> None:
        del number, frame
        self._put_event("signal", None)

    def _process_next(self) -> bool:
        """Process one event, or write the messages that are due; return whether to continue."""
        wait_s = None
        if self._waiting_messages:
            wait_s = max(0.0, (self._waiting_messages[0][0] - time.monotonic_ns()) / 1e9)
        elif self.engine.is_over:
            return False
        try:
            origin, line, at_ns = self._events.get(timeout=wait_s)
        except Empty:
            self._write_due()
            return True
        match origin, line:
            case "server", _:
                self._on_server_line(line, at_ns)
            case "client", bytes():
                self._on_client_line(line, at_ns)
            case _:
                self._is_stopped = origin == "signal"
                return False
        return True

    def _await_unanswered(self) -> None:
        """Write what the server behind the recording still answers, until time is up or a signal comes."""
        deadline_ns = time.monotonic_ns() + _ANSWER_WAIT_NS
        while self._passthrough.has_unanswered and not self._is_stopped:
            try:
                origin, line, at_ns = self._events.get(
                    timeout=max(0, deadline_ns - time.monotonic_ns()) / 1e9
                )
            except Empty:
                return
            self._is_stopped = origin == "signal"
            if origin == "server":
                self._on_server_line(line, at_ns)

    def _on_client_line(self, line: bytes, at_ns: int) -> None:
        outcome = self.engine.receive(line)
        for note in outcome.notes:
            self._log(note)
        if self._command:
            # ``on_client_message`` returns only the lines of notifications and responses. The lines of the
            # requests that the recording does not answer come from ``pass_on``.
            lines = [line for live in outcome.messages for line in self._passthrough.on_client_message(live)]
            for live in outcome.passed:
                self.passed_on += 1
                lines += self._passthrough.pass_on(live)
            if lines:
                self._passthrough_process().write(lines)
        self._send_messages([*outcome.outgoing, *self._passthrough.errors_after_exit()], at_ns)

    def _passthrough_process(self) -> PassthroughProcess:
        if self._server is None:
            self._server = PassthroughProcess(self._command, lambda line: self._put_event("server", line))
        return self._server

    def _on_server_line(self, line: bytes | None, at_ns: int) -> None:
        """Process a line of the server behind the recording; ``None`` if that server has ended."""
        if line is None:
            self._log("the server behind the recording has ended")
            self._send_messages(self._passthrough.on_exit(), at_ns)
            return
        outgoing, lines = self._passthrough.on_server_line(line)
        self._passthrough_process().write(lines)
        self._send_messages(outgoing, at_ns)

    def _send_messages(self, outgoing: list[OutgoingMessage], since_ns: int) -> None:
        """Send each message after its delay, counted from ``since_ns``, when the client message was read."""
        for out in outgoing:
            self._queued_count += 1
            heapq.heappush(self._waiting_messages, (since_ns + out.delay_ns, self._queued_count, out))
        self._write_due()

    def _write_due(self) -> None:
        while self._waiting_messages and self._waiting_messages[0][0] <= time.monotonic_ns():
            out = heapq.heappop(self._waiting_messages)[2]
            if out.raw and not (out.live and out.live.is_cancelled):
                _write_all(self._write_fd, out.raw + b"\n")

    def _read_client(self) -> None:
        lines = WholeLines()
        while chunk := _read_chunk(self._read_fd):
            for line in lines.feed(chunk):
                self._put_event("client", line)
        for line in lines.end():
            self._put_event("client", line)
        self._put_event("client", None)

    def _put_event(self, origin: str, line: bytes | None) -> None:
        self._events.put((origin, line, time.monotonic_ns()))


def _read_chunk(fd: int) -> bytes:
    """Read bytes; the result is empty at the end of the input, or if it cannot be read."""
    try:
        return os.read(fd, _CHUNK_BYTES)
    except OSError:
        return b""


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
