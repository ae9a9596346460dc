"""A server on stdio under test: a child process whose lines are all recorded.

The caller decides every byte that is sent. The stderr of the server is recorded and not shown.
"""

import asyncio
import signal
from collections.abc import Mapping, Sequence
from typing import Final

from mcpproxy.base.system_words import end_text
from mcpproxy.base.telling_line import LastLines
from mcpproxy.errors import McpProxyError
from mcpproxy.judge.session.frame import (
    CLIENT,
    FRAME_BYTES,
    SERVER,
    Close,
    Eof,
    Frame,
    Sender,
    Signal,
    Stderr,
)
from mcpproxy.peers.client.child_process import GRACE_S, ChildProcess
from mcpproxy.peers.validate.errors import CouldNotStartError, GoneError
from mcpproxy.peers.validate.session_recording import SessionRecording
from mcpproxy.peers.validate.transports.wire import EventHandler, FrameReceived, ServerLost, ignore_event
from mcpproxy.protocol.mirrors import Mirrors
from mcpproxy.record.framing.lines import LineFramer
from mcpproxy.record.recorder.http.body_frames import in_pieces
from mcpproxy.record.recorder.http.memory_budget import BUDGET_BYTES, Budget

_CHUNK_BYTES: Final = 1 << 16
_MAX_BYTES: Final = 256 << 20
"""A server is killed if its stdout exceeds this in one session, with ``FRAME_BYTES`` for each line.

Beyond the same amount of stderr, no more of it is recorded.
"""

_LINE_BYTES: Final = 16 << 20
"""The longest line that is parsed. A shorter one is not parsed either if its parsed form needs more than
``BUDGET_BYTES`` of memory."""

_LAST_STDERR_S: Final = 0.5
"""How long to wait for the end of stderr after the server has exited."""
_SHOWN: Final = 200
"""How much of a line of stderr is shown as the reason of an exit, in characters."""
_STDERR_BYTES: Final = 1 << 20
"""The longest line of stderr that is recorded in one piece."""

SHORT_GRACE_S: Final = 0.1
"""How long a server may take to exit after its stdin was closed, if an earlier process took too long."""


class StdioWire:
    """Runs ``command`` in the folder ``cwd`` (empty: ours), with ``env`` added to our environment.

    ``stderr_bytes`` is the length of its stderr so far. ``exit_code`` is set when the server has ended, and
    is negative for a signal. ``grace_s`` is how long the server may take to exit after its stdin was closed;
    ``outlived_stdin`` says whether it took longer.
    """

    transport = "stdio"

    def __init__(
        self,
        recording: SessionRecording,
        command: Sequence[str],
        env: Mapping[str, str],
        grace_s: float = GRACE_S,
        cwd: str = "",
    ) -> None:
        self.recording = recording
        self.write_lock: Final = asyncio.Lock()
        """Held while a message is written in pieces, so that our own responses do not come between them."""
        self.outlived_stdin = False
        self.on_event: EventHandler = ignore_event
        self.version = ""
        self.mirrors: Final[dict[str, Mirrors]] = {}
        self.stderr_bytes = 0
        self.exit_code: int | None = None
        self._command: Final = command
        self._env: Final = env
        self._cwd: Final = cwd
        self.grace_s: Final = grace_s
        self._process: ChildProcess | None = None
        self._tasks: Final[list[asyncio.Task[None]]] = []
        self._input_framer: Final = LineFramer()  # splits our bytes into lines
        self._is_open = False
        self._lost_because = ""
        self._last_words: Final = LastLines()
        self._has_sent_eof = False

    @property
    def pid(self) -> int:
        """The process id of the server."""
        assert self._process is not None
        return self._process.pid

    async def open(self) -> None:
        """Start the command.

        Raises:
            CouldNotStartError: the command cannot be started.
        """
        reason = ""
        try:
            process = self._process = await ChildProcess.start(
                self._command, env=self._env, cwd=self._cwd, has_stderr=True
            )
        except McpProxyError as fault:
            reason = str(fault).removeprefix(f"{self._command[0]}: ")
            raise CouldNotStartError(str(fault)) from None
        finally:  # also if the run ends while the process starts
            if self._process is None:
                now_ns = self.recording.now_ns()
                self.recording.close(Close("not started", observed_at_ns=now_ns, reason=reason))
        self._is_open = True
        readers = (self._read_stdout(process), self._read_stderr(process))
        self._tasks.extend(asyncio.create_task(reader) for reader in readers)

    async def fall_back(self, status: int, timeout_s: float) -> bool:  # noqa: ARG002 # the signature of Wire
        """Return false: only a server over HTTP can have an older transport to switch to."""
        return False

    async def send(self, raw: bytes) -> int:
        """Send a line, and return the number of its frame.

        Raises:
            GoneError: the server is gone, or its stdin is closed.
        """
        async with self.write_lock:
            return await self.write(raw + b"\n")

    async def open_stream(self) -> None:
        """Do nothing: stdout is always read."""

    async def write(self, data: bytes) -> int:
        """Send exactly these bytes, a part of a line or several lines. Return the number of the last frame.

        The bytes are recorded before they are sent, and so before the server can answer.

        Raises:
            GoneError: the server is gone, or its stdin is closed.
        """
        process = self._process
        if process is None or not self._is_open:
            raise self._gone_error("it was not started")
        if self._has_sent_eof:  # writing to a closed pipe would not fail
            raise GoneError("the server's stdin is closed")
        at_ns = self.recording.now_ns()
        for raw, when_ns, terminated, continues in self._input_framer.feed(data, at_ns):
            self._record_frame(CLIENT, raw, when_ns, terminated, continues)
        seq = self.recording.seq
        try:
            process.stdin.write(data)
            await process.stdin.drain()
        except (ConnectionError, BrokenPipeError):
            # If the server has ended, the reader of stdout finds out why.
            await asyncio.wait(self._tasks[:1], timeout=GRACE_S)
            raise self._gone_error("it does not read its stdin any more") from None
        return seq

    def _gone_error(self, otherwise: str) -> GoneError:
        """Return the error that says why the server is gone; ``otherwise`` if that is not known."""
        return GoneError(f"the server is gone: {self._lost_because or otherwise}")

    def close_stdin(self) -> None:
        """Close the server's stdin."""
        process = self._process
        if process is None or self._has_sent_eof:
            return
        self._has_sent_eof = True
        for raw, at_ns, terminated, continues in self._input_framer.end():
            self._record_frame(CLIENT, raw, at_ns, terminated, continues)
        self.recording.record(Eof(CLIENT, self.recording.now_ns()))
        process.stdin.close()

    def signal(self, number: int) -> None:
        """Send a signal to the server, but not to the processes that it started."""
        if self._process is not None and self._process.exit_code is None:
            self.recording.record(Signal(signal.Signals(number).name, self.recording.now_ns()))
            self._process.signal(number)

    async def wait_for_exit(self, limit_s: float) -> bool:
        """Wait for the server to exit; return whether it has exited within ``limit_s`` seconds."""
        assert self._process is not None
        return await self._process.wait_for_exit(limit_s)

    async def close(self) -> None:
        """Close stdin, wait, send SIGTERM, wait, send SIGKILL to the whole process group."""
        process = self._process
        if process is None:
            return
        try:
            self.close_stdin()
            if not await self.wait_for_exit(self.grace_s):
                self.outlived_stdin = True
                self.signal(signal.SIGTERM)
                await self.wait_for_exit(GRACE_S)
        finally:
            await self._end_process(process)

    async def kill(self) -> None:
        """Kill the server at once."""
        if self._process is not None:
            await self._end_process(self._process)

    async def _end_process(self, process: ChildProcess) -> None:
        """Kill the process group, read the last output, and complete the recording."""
        self.exit_code = await process.end(self._tasks)
        at_ns = self.recording.now_ns()
        if self.exit_code >= 0:
            self.recording.close(Close("exited", exit_code=self.exit_code, observed_at_ns=at_ns))
        else:
            self.recording.close(Close("signalled", signal=-self.exit_code, observed_at_ns=at_ns))

    async def _read_stdout(self, process: ChildProcess) -> None:
        framer = LineFramer(_LINE_BYTES)
        total = 0
        while chunk := await process.stdout.read(_CHUNK_BYTES):
            at_ns = self.recording.now_ns()
            lines = framer.feed(chunk, at_ns)
            total += len(chunk) + FRAME_BYTES * len(lines)
            for raw, when_ns, terminated, continues in lines:
                if why := _why_too_large(raw, continues):
                    self._lost_because = self._lost_because or why
                    self._record_in_pieces(Frame(0, SERVER, raw, when_ns, terminated, continues))
                else:
                    self._record_frame(SERVER, raw, when_ns, terminated, continues)
            if total > _MAX_BYTES:
                why = f"it sent more than {_MAX_BYTES >> 20} MiB, or as many messages"
                self._lost_because = self._lost_because or why
            if self._lost_because:
                process.kill_all()
                break
            await asyncio.sleep(0)  # so that other tasks run, even if the server sends without a pause
        for raw, at_ns, terminated, continues in framer.end():
            self._record_frame(SERVER, raw, at_ns, terminated, continues)
        self.recording.record(Eof(SERVER, self.recording.now_ns()))
        if not self._lost_because:
            await self.wait_for_exit(GRACE_S)
            self.exit_code = process.exit_code
            if process.exit_code:  # the last line of stderr usually says why
                await asyncio.wait(self._tasks[1:], timeout=_LAST_STDERR_S)
            self._lost_because = _exit_text(process.exit_code, self._last_words)
        self._is_open = False
        self.on_event(ServerLost(self._lost_because))

    def _record_in_pieces(self, frame: Frame) -> None:
        """Record a line that is too large to be parsed."""
        for piece in in_pieces(frame, at_least=2):
            self.recording.record_frame(piece)

    async def _read_stderr(self, process: ChildProcess) -> None:
        assert process.stderr is not None
        framer = LineFramer(_STDERR_BYTES)
        while chunk := await process.stderr.read(_CHUNK_BYTES):
            self.stderr_bytes += len(chunk)
            if self.stderr_bytes > _MAX_BYTES:
                continue
            for raw, at_ns, terminated, _ in framer.feed(chunk, self.recording.now_ns()):
                self._record_stderr(Stderr(raw, at_ns, terminated))
        for raw, at_ns, terminated, _ in framer.end():
            self._record_stderr(Stderr(raw, at_ns, terminated))

    def _record_stderr(self, line: Stderr) -> None:
        self.recording.record(line)
        self._last_words.add(line.raw)

    def _record_frame(
        self, sender: Sender, raw: bytes, at_ns: int, terminated: bool, continues: bool
    ) -> None:
        frame = self.recording.record_frame(Frame(0, sender, raw, at_ns, terminated, continues))
        if sender == SERVER:
            self.on_event(FrameReceived(frame))


def _why_too_large(raw: bytes, continues: bool) -> str:
    """Return why a line is too large to be parsed, as a clause; empty if the line can be parsed."""
    if continues:
        return f"it sent a line of more than {_LINE_BYTES >> 20} MiB"
    if Budget().cost(raw) is None:
        return f"it sent a line of {len(raw) >> 20} MiB that takes more than {BUDGET_BYTES >> 20} MiB to read"
    return ""


def _exit_text(code: int | None, last_words: LastLines) -> str:
    """Return how the process ended, as a clause, with the line of its stderr that explains the end."""
    why = last_words.telling(_SHOWN) if code else ""
    return f"it {end_text(code)}{f' ({why})' if why else ''}"
