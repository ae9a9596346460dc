"""One leg of a bridge: its journal, the recorder process that follows the journal, and the lines for stderr.

A bridge has two legs, its connections to the client and to the server. The bytes of a leg are appended to the
journal, from which the recorder makes the recording, when they are read, or just before they are written. So
all bytes that were read or sent are in the recording, however the bridge ends.
"""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from mcpproxy.base.json_string import quoted
from mcpproxy.record.relay import journal as journals
from mcpproxy.record.relay.exit_status import RECORDER_S, RecorderWait, exit_payload, no_recorder
from mcpproxy.record.relay.journal import Journal
from mcpproxy.record.relay.stderr_line import stderr_line
from mcpproxy.record.relay.stdio.forked_recorder import Recorder, fork_recorder
from mcpproxy.record.relay.stdio.sinks import WaitingLines, inherited_sink

if TYPE_CHECKING:
    from mcpproxy.record.relay.stdio.forked_recorder import RecorderMain

Say = Callable[[str], None]
"""Writes one line to stderr."""

ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals that end a bridge."""

_NOTES_BYTES: Final = 64 << 10
"""How many bytes of the lines of a recorder for stderr are read at once."""
_WAITING_BYTES: Final = 256 << 10
"""How many bytes for stderr are kept while nobody reads it."""
_RETRY_S: Final = 0.05
"""After how long lines that stderr did not take are written again."""


class StderrLines:
    """Writes lines to stderr without waiting for its reader. Lines that do not fit wait, up to a limit."""

    def __init__(self, *, is_quiet: bool) -> None:
        self._lines: Final = WaitingLines(inherited_sink(2), _WAITING_BYTES)
        self._is_quiet: Final = is_quiet
        self._retry: asyncio.TimerHandle | None = None

    def say(self, text: str) -> None:
        """Write one line of mcpproxy, unless stderr is to be quiet."""
        if not self._is_quiet:
            self.write(stderr_line(text))

    def write(self, data: bytes) -> None:
        """Write complete lines."""
        self._lines.add(data)
        if self._retry is None:
            self._flush()

    def _flush(self) -> None:
        """Write as many bytes as stderr takes now, and the rest later."""
        self._retry = None
        if not self._lines.flush():
            self._retry = asyncio.get_running_loop().call_later(_RETRY_S, self._flush)


class Leg:
    """Records a leg in ``journal``; with ``None`` nothing is recorded.

    ``recorder_main`` is the main function of the recorder, ``None`` for none. The recorder is forked here, so
    make a leg before the event loop runs and before threads are started. At the end of the leg the recorder
    has ``wait_s`` seconds to complete the trace.
    """

    def __init__(
        self,
        journal: Journal | None,
        recorder_main: "RecorderMain | None",
        stderr: StderrLines,
        *,
        wait_s: float = RECORDER_S,
    ) -> None:
        self._wait_s: Final = wait_s
        self._journal: Final = journal
        self._stderr: Final = stderr
        self._recorder: Recorder | None = None
        self._notes_ended: asyncio.Event | None = None
        if journal is None:
            return
        journal.on_notice = stderr.say
        try:
            if recorder_main is not None:
                self._recorder = fork_recorder(recorder_main, None, 0)
        except OSError as fault:
            stderr.say(no_recorder(fault))

    def open(self) -> None:
        """Forward the recorder's lines to stderr from now on."""
        if self._recorder is not None:
            self._notes_ended = asyncio.Event()
            forward_notes(self._recorder.notes, self._stderr, self._notes_ended.set)

    def record_bytes(self, kind: int, payload: bytes, connection: int) -> None:
        """Append a record to the journal. ``connection`` is the number of its connection, 0 for none."""
        if self._journal is None:
            return
        self._journal.append(kind, journals.now_ns(), payload, connection)
        if self._recorder is not None and self._recorder.asleep[0]:
            self._recorder.wake()

    def note(self, what: str, why: str) -> None:
        """Record a note about the leg: ``what`` is the name of an event, ``why`` a clause."""
        payload = f'{{"what":{quoted(what)},"why":{quoted(why)}}}'
        self.record_bytes(journals.NOTE, payload.encode("utf-8", "replace"), 0)

    async def close(self) -> None:
        """Complete the journal, and wait a moment for the recorder to complete the trace."""
        if self._journal is None:
            return
        now_ns = journals.now_ns()
        self._journal.append(journals.EXIT, now_ns, exit_payload(0))
        unwritten = self._journal.close(now_ns)
        if self._recorder is None:
            return
        self._recorder.leave(unwritten)
        if self._notes_ended is not None:
            wait = RecorderWait(self._wait_s, (self._journal.folder,))
            await wait_for_notes(self._notes_ended, wait, self._stderr)


async def wait_for_notes(ended: asyncio.Event, wait: RecorderWait, stderr: StderrLines) -> None:
    """Wait until ``ended`` is set after the recorder's last line, as long as ``wait`` allows.

    If the recording is not complete by then, say so on stderr.
    """
    while not ended.is_set() and (left_s := wait.left_s()) > 0:
        with suppress(TimeoutError):
            async with asyncio.timeout(left_s):
                await ended.wait()
    if not ended.is_set():
        wait.say_if_late(stderr.say)


def forward_notes(notes: int, stderr: StderrLines, on_end: Callable[[], None]) -> None:
    """Copy the pipe ``notes`` of a recorder to stderr from now on, and call ``on_end`` at its end."""
    loop = asyncio.get_running_loop()

    def forward() -> None:
        try:
            data = os.read(notes, _NOTES_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            stderr.write(data)
        else:
            loop.remove_reader(notes)
            on_end()

    loop.add_reader(notes, forward)
