"""Write the lines of the proxy and its recorder (the process that makes the trace) to stderr, without ever
waiting for the reader."""

from __future__ import annotations

import os

from mcpproxy.record.relay.http.loop import READ, WRITE
from mcpproxy.record.relay.stderr_line import stderr_line
from mcpproxy.record.relay.stdio.sinks import WaitingLines, inherited_sink

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    from mcpproxy.record.relay.http.loop import Loop

CHUNK_BYTES: Final = 64 << 10
"""How many bytes of the recorder's notes are read at once."""

_WAITING_BYTES: Final = 256 << 10
"""How many bytes may wait for the reader of stderr; further lines are dropped."""


class StderrLog:
    """Writes the proxy's lines to stderr, unless ``is_quiet``, and forwards the recorder's notes (its own
    lines for the user)."""

    def __init__(self, loop: Loop, is_quiet: bool) -> None:
        self._loop = loop
        self._is_quiet = is_quiet
        self._sink = inherited_sink(2)
        self._waiting = WaitingLines(self._sink, _WAITING_BYTES)
        self._notes = -1  # the pipe of the recorder's notes; -1 if there is none
        self._on_notes_end: Callable[[], None] = lambda: None
        self._is_waiting = False

    def say(self, text: str) -> None:
        """Write one line, never in the middle of another line."""
        if not self._is_quiet:
            self._add_text(stderr_line(text))

    def forward_notes(self, notes: int, on_end: Callable[[], None]) -> None:
        """Forward all bytes from the pipe ``notes``; ``on_end`` is called at the end of the pipe."""
        self._notes = notes
        self._on_notes_end = on_end
        self._loop.watch(notes, READ, self._on_notes)

    @property
    def has_notes(self) -> bool:
        """Whether the recorder may still write notes."""
        return self._notes >= 0

    def _on_notes(self, events: int) -> None:
        del events
        try:
            data = os.read(self._notes, CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._add_text(data)
            return
        self._loop.forget(self._notes)
        os.close(self._notes)
        self._notes = -1
        self._on_notes_end()

    def _add_text(self, data: bytes) -> None:
        self._waiting.add(data)
        self._write_lines()

    def _write_lines(self) -> None:
        if not self._waiting.flush():
            self._wait_for_room()

    def _wait_for_room(self) -> None:
        """Watch for room in stderr. The recorder's notes are not read until then."""
        if not self._is_waiting:
            self._is_waiting = True
            self._loop.watch(self._sink.fd, WRITE, self._on_room)
            if self._notes >= 0:
                self._loop.forget(self._notes)

    def _on_room(self, events: int) -> None:
        del events
        self._is_waiting = False
        self._loop.forget(self._sink.fd)
        if self._notes >= 0:
            self._loop.watch(self._notes, READ, self._on_notes)
        self._write_lines()
