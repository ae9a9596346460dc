"""The proxy for systems without fork on which a loop can wait for sockets only (Windows).

It differs from the proxy in ``proxy.py`` only where that uses other descriptors. The recorder is a program of
its own. Threads write to stderr and read the recorder's notes (its lines for the user), because a loop cannot
wait for a pipe together with sockets. The threads and the signal handlers wake the loop through a pair of
sockets.

The loop uses select, which on Windows watches 512 sockets: 255 clients at a time, each with its connection to
upstream (the server). More clients wait until they are accepted.
"""

from __future__ import annotations

import os
import queue
import threading

from mcpproxy.record.relay.http.proxy import Proxy, Settings
from mcpproxy.record.relay.http.stderr_log import CHUNK_BYTES, StderrLog
from mcpproxy.record.relay.spawned_recorder import SpawnedRecorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import Final

    from mcpproxy.record.relay.journal import Journal

MOST_SOCKETS: Final = 512
"""How many sockets select watches on Windows."""

_WAITING_LINES: Final = 1000
"""How many lines, or pieces of notes, may wait for the reader of stderr; further ones are dropped."""

_LAST_LINES_S: Final = 1.0
"""How long the reader of stderr may take for the last lines."""


def run(
    settings: Settings, listener: socket.socket, journal: Journal | None, recorder: list[str] | None
) -> int:
    """Serve until a signal to stop arrives. Return the exit code, which is 0.

    Arguments and result are those of ``relay.http.proxy.run``, except ``recorder``: the command that
    starts the recorder, or ``None`` to start none.
    """
    proxy = PortableProxy(settings, listener, journal)

    def start_recorder() -> None:
        if recorder is not None:
            proxy.attach_recorder(SpawnedRecorder(recorder))

    return proxy.run(start_recorder, settings.greetings)


class PortableProxy(Proxy):
    """The proxy, with threads and sockets in the place of other descriptors."""

    def _open_stderr(self, is_quiet: bool) -> None:
        self.stderr_log = self.log = ThreadedLog(self._wake, is_quiet)
        self.most_clients = (MOST_SOCKETS - 2) // 2

    def _journal_turn(self) -> None:
        super()._journal_turn()
        if self._recorder is not None:
            self._recorder.wake()

    def finish(self) -> None:
        """Do what ``Proxy.finish`` does, and wait a moment until the last lines are on stderr."""
        super().finish()
        self.log.close()

    def _on_wakeup(self, events: int) -> None:
        super()._on_wakeup(events)
        self.log.deliver()


class ThreadedLog(StderrLog):
    """A ``StderrLog`` whose lines are written by a thread. ``wake`` wakes the loop."""

    # The constructor of StderrLog is not called: it opens stderr for a loop.
    def __init__(self, wake: Callable[[], None], is_quiet: bool) -> None:
        self._wake = wake
        self._is_quiet = is_quiet
        self._lines: queue.Queue[bytes | None] = queue.Queue(_WAITING_LINES)
        self._writer = threading.Thread(target=self._write_texts, daemon=True)
        self._writer.start()
        self._reader: threading.Thread | None = None
        self._on_notes_end: Callable[[], None] = lambda: None

    def forward_notes(self, notes: int, on_end: Callable[[], None]) -> None:
        """Forward all bytes from the pipe ``notes``; ``on_end`` is called at the end of the pipe."""
        self._on_notes_end = on_end
        self._reader = threading.Thread(target=self._read_notes, args=(notes,), daemon=True)
        self._reader.start()

    @property
    def has_notes(self) -> bool:
        """Whether the recorder may still write notes."""
        return self._reader is not None

    def deliver(self) -> None:
        """Call ``on_end`` if the notes have ended. Only the thread of the loop may call this."""
        if self._reader is not None and not self._reader.is_alive():
            self._reader = None
            self._on_notes_end()

    def close(self) -> None:
        """Wait a moment until the last lines are written."""
        self._add_text(None)
        self._writer.join(_LAST_LINES_S)

    def _add_text(self, data: bytes | None) -> None:
        try:
            self._lines.put_nowait(data)
        except queue.Full:
            pass

    def _write_texts(self) -> None:
        while (line := self._lines.get()) is not None:
            rest = memoryview(line)
            try:
                while rest:
                    rest = rest[os.write(2, rest) :]
            except OSError:
                pass  # nobody reads stderr any more

    def _read_notes(self, notes: int) -> None:
        try:
            while data := os.read(notes, CHUNK_BYTES):
                self._add_text(data)
        except OSError:
            pass
        threading.Thread(target=self._announce_end, args=(threading.current_thread(),), daemon=True).start()

    def _announce_end(self, reader: threading.Thread) -> None:
        reader.join()  # so that ``deliver`` sees that the thread has ended
        self._wake()
