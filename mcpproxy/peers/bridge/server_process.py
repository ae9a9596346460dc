"""One process of a stdio server: its pipes in the event loop, its end, and its recording.

The process runs in a process group of its own. So the processes that it starts end with it, and Ctrl-C in the
terminal reaches only the bridge, which then ends all of them in order.
"""

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from mcpproxy.peers.bridge.session_recordings import SessionJournal
from mcpproxy.peers.client.child_process import signal_group
from mcpproxy.peers.replay.whole_lines import WholeLines
from mcpproxy.record.relay import journal as journals
from mcpproxy.record.relay.exit_status import exit_payload

_CHUNK_BYTES: Final = 64 << 10
_LINGER_S: Final = 0.25
"""How long the children of a server that has exited may keep its pipes open."""


class ServerProcess:
    """Runs ``command``.

    ``begin_recording`` is called with the process id, and returns the journal for the process's raw bytes.
    ``on_line`` is called with each line of stdout, ``on_stderr`` with bytes of stderr, and ``on_exit`` at the
    end, with the exit code, negative for a signal. ``grace_s`` is how many seconds the process may take to
    exit after its stdin was closed, and again after SIGTERM.

    Raises:
        OSError: the command cannot be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        begin_recording: Callable[[int], SessionJournal],
        on_line: Callable[[bytes], None],
        on_stderr: Callable[[bytes], None],
        on_exit: Callable[[int], None],
        grace_s: float,
    ) -> None:
        pipe = subprocess.PIPE
        self._process: Final = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True
        )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._stdin = process.stdin.fileno()
        self._on_line: Final = on_line
        self._on_stderr: Final = on_stderr
        self._on_exit: Final = on_exit
        self._grace_s: Final = grace_s
        self._recording: Final = begin_recording(process.pid)
        self._loop: Final = asyncio.get_running_loop()
        self._lines: Final = WholeLines()
        self._rest = bytearray()  # bytes for stdin that the pipe had no room for
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._is_stdin_open = True
        self._is_held = False
        self._open_outputs = {process.stdout.fileno(), process.stderr.fileno()}
        self._ended: Final = asyncio.Event()
        self._kill_timer: asyncio.TimerHandle | None = None
        self._linger: asyncio.TimerHandle | None = None
        for fd in (self._stdin, *self._open_outputs):
            os.set_blocking(fd, False)
        self._stdout: Final = process.stdout.fileno()
        self._stderr: Final = process.stderr.fileno()
        self._loop.add_reader(self._stdout, self._read_stdout)
        self._loop.add_reader(self._stderr, self._read_stderr)
        self._pidfd = -1
        self._watch_exit()

    async def write(self, line: bytes, kind: int = journals.CLIENT) -> bool:
        """Write a line to stdin, and wait while the pipe is full; return false if stdin is closed.

        ``kind`` is the kind of its journal record.
        """
        if not self._is_stdin_open:
            return False
        data = line + b"\n"
        self._record(kind, data)
        if not self._rest:
            try:
                written = os.write(self._stdin, data)
            except BlockingIOError:
                written = 0
            except OSError:
                self._close_stdin()
                return False
            data = data[written:]
        if data:
            if not self._rest:
                self._has_room.clear()
                self._loop.add_writer(self._stdin, self._write_rest)
            self._rest += data
            await self._has_room.wait()
        return self._is_stdin_open

    def hold_output(self, *, is_held: bool) -> None:
        """Stop reading from stdout if ``is_held``, otherwise read again."""
        if is_held == self._is_held or self._stdout not in self._open_outputs:
            return
        if is_held and self._kill_timer is not None:
            return  # a server that is being ended must be able to write its last output
        self._is_held = is_held
        if is_held:
            self._loop.remove_reader(self._stdout)
        else:
            self._loop.add_reader(self._stdout, self._read_stdout)
            self._finish_if_over()

    def stop(self) -> None:
        """End the server: close its stdin, after ``grace_s`` send SIGTERM, and after ``grace_s`` SIGKILL."""
        self._close_stdin()
        if self._kill_timer is None and not self._ended.is_set():
            self._kill_timer = self._loop.call_later(self._grace_s, self._send_signal, signal.SIGTERM)
            self.hold_output(is_held=False)

    async def wait(self) -> None:
        """Wait until the server has ended and its recording is complete."""
        await self._ended.wait()

    def _record(self, kind: int, payload: bytes = b"") -> None:
        self._recording.append(kind, payload)

    def _write_rest(self) -> None:
        try:
            del self._rest[: os.write(self._stdin, self._rest)]
        except BlockingIOError:
            return
        except OSError:
            self._close_stdin()
            return
        if not self._rest:
            self._loop.remove_writer(self._stdin)
            self._has_room.set()

    def _close_stdin(self) -> None:
        if self._is_stdin_open:
            self._is_stdin_open = False
            self._loop.remove_writer(self._stdin)
            self._rest.clear()
            self._has_room.set()
            self._record(journals.CLIENT_EOF)
            assert self._process.stdin is not None
            self._process.stdin.close()

    def _read_stdout(self) -> None:
        data = self._read_pipe(self._stdout)
        if data is None:
            return
        if data:
            self._record(journals.SERVER, data)
        else:
            self._record(journals.SERVER_EOF)
            self._close_output(self._stdout)
        for line in self._lines.feed(data) if data else self._lines.end():
            self._on_line(line)

    def _read_stderr(self) -> None:
        data = self._read_pipe(self._stderr)
        if data:
            self._record(journals.STDERR, data)
            self._on_stderr(data)
        elif data is not None:
            self._record(journals.STDERR_EOF)
            self._close_output(self._stderr)

    def _read_pipe(self, fd: int) -> bytes | None:
        """Return the bytes in a pipe; empty at its end, ``None`` if there are none to read now."""
        try:
            return os.read(fd, _CHUNK_BYTES)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def _close_output(self, fd: int) -> None:
        self._loop.remove_reader(fd)
        self._open_outputs.discard(fd)
        self._finish_if_over()

    # The end

    def _watch_exit(self) -> None:
        """Arrange that ``_finish_if_over`` is called when the process exits."""
        try:
            self._pidfd = os.pidfd_open(self._process.pid)
        except (AttributeError, OSError):  # not Linux, or an old kernel
            threading.Thread(target=self._await_exit, daemon=True).start()
        else:
            self._loop.add_reader(self._pidfd, self._on_pidfd)

    def _await_exit(self) -> None:
        self._process.wait()
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._finish_if_over)

    def _on_pidfd(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._process.wait()
        self._finish_if_over()

    def _finish_if_over(self) -> None:
        """Complete the recording if the process has exited and its output is read."""
        if self._process.returncode is None or self._ended.is_set():
            return
        if self._open_outputs:
            if self._linger is None and not self._is_held:
                self._linger = self._loop.call_later(_LINGER_S, self._give_up_outputs)
            return
        for timer in (self._kill_timer, self._linger):
            if timer is not None:
                timer.cancel()
        signal_group(self._process.pid, signal.SIGKILL)  # the processes that it has started
        self._close_stdin()
        self._ended.set()
        for output in (self._process.stdout, self._process.stderr):
            assert output is not None
            output.close()
        self._recording.close(exit_payload(self._process.returncode))
        self._on_exit(self._process.returncode)

    def _give_up_outputs(self) -> None:
        """Stop reading outputs that the server's children keep open after its exit."""
        self._linger = None
        if self._is_held:
            return  # the output is read when the clients have caught up
        for fd in tuple(self._open_outputs):
            self._close_output(fd)

    def _send_signal(self, number: int) -> None:
        if not self._ended.is_set():
            self._record(journals.SIGNAL, signal.Signals(number).name.encode())
            signal_group(self._process.pid, number)
            self._kill_timer = self._loop.call_later(self._grace_s, self._send_signal, signal.SIGKILL)
