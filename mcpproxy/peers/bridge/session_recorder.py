"""The recorder of all sessions with a stdio server: ``python -m mcpproxy.peers.bridge.session_recorder``.

It reads commands about journals, the raw bytes of sessions, from stdin (see ``session_recordings``), and
makes a recording of each journal as the recorder of ``mcpproxy run`` does. The end of stdin means that the
bridge is gone: the recorder then ends the servers that still run, and completes the traces.
"""

import argparse
import gc
import os
import signal
import time
from base64 import b64decode
from collections.abc import Callable
from contextlib import suppress
from typing import Final, cast

from mcpproxy.base.ready import is_readable
from mcpproxy.errors import McpProxyError
from mcpproxy.record.recorder import journal_reader
from mcpproxy.record.recorder.journal_reader import JournalReader
from mcpproxy.record.recorder.judge import standard_observer
from mcpproxy.record.recorder.lock import Lock
from mcpproxy.record.recorder.pipeline import RecordingPipeline
from mcpproxy.record.recorder.process import RETRY_S
from mcpproxy.record.recorder.stderr_notes import Mode, StderrNotes
from mcpproxy.record.relay import journal, priority
from mcpproxy.record.relay.open_files import raise_limit
from mcpproxy.record.relay.stderr_line import use_json
from mcpproxy.record.relay.stdio.forked_recorder import ORPHAN_S
from mcpproxy.record.trace.writer import TraceWriter

_READ_BYTES: Final = 64 << 10

_KILLED_S: Final = 5.0
"""How long a killed server may take to be gone on a busy machine."""
_LAST_NOTES_S: Final = 0.9
"""How long the last lines may take to be written to stderr."""


class JournaledSession:
    """The recording of one session.

    ``pid`` is the process id of its server, and ``trace`` the path of the recording.

    ``pidfd`` is a file descriptor of the server's process, -1 if there can be none.

    Raises:
        McpProxyError: its journal is gone.
        OSError: the trace cannot be written.
    """

    def __init__(self, number: int, pid: int, trace: str, mode: Mode, *, is_quiet: bool) -> None:
        self.notes: Final = StderrNotes(None if is_quiet else 2, mode, f"stdio leg, session {number}")
        self.pidfd = _pidfd(pid)
        self._trace: Final = trace
        self._folder: Final = journal.folder(trace)
        lock = None
        try:
            lock = Lock.take(self._folder, is_waiting=True)
        finally:
            if lock is None:
                self._close_pidfd()
        if lock is None:
            raise McpProxyError(f"{self._folder}: the journal is gone; leave it alone while a session lives")
        self._lock: Final = lock
        self._reader: Final = JournalReader(self._folder)
        self._writer: Final = TraceWriter(trace)
        self._pipeline: Final = RecordingPipeline(self._reader, self._writer, standard_observer, self.notes)

    @property
    def is_stuck(self) -> bool:
        """Whether the trace cannot be written at the moment."""
        return self._pipeline.is_stuck

    def drain(self) -> bool:
        """Write the trace of the records in the journal; return whether the session is over and recorded."""
        self._pipeline.drain()
        self.notes.flush()
        return self._pipeline.is_over and not self.is_stuck and self._complete_trace()

    def end(self, unwritten: bytes) -> None:
        """Take note that the journal will get no more records; ``unwritten`` are the last ones, not in it."""
        self._reader.end(unwritten)

    def give_up(self) -> bool:
        """Complete the trace as far as possible; return true, as ``drain`` does at the end of a session."""
        self._pipeline.drain()
        return self._complete_trace()

    def _complete_trace(self) -> bool:
        note = "" if self._pipeline.finish() else self._pipeline.give_up()
        changes = self._writer.outside_changes()
        journal_reader.remove(self._folder)
        self.close()
        self.notes.summarize(self._trace, self._pipeline.tally, note, self._pipeline.lag_ns, changes)
        self.notes.drain(_LAST_NOTES_S)
        return True

    def close(self) -> None:
        """Close all files."""
        self._reader.close()
        self._writer.close()
        self._lock.release()
        self._close_pidfd()

    def _close_pidfd(self) -> None:
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1


class SessionRecorder:
    """Records every session that a line on stdin opens."""

    def __init__(self, mode: Mode, *, is_quiet: bool) -> None:
        self._mode: Final[Mode] = mode
        self._is_quiet: Final = is_quiet
        self._sessions: Final[dict[int, JournaledSession]] = {}
        self._beginning = b""  # the beginning of a line that is not complete yet

    def run(self) -> None:
        """Record until stdin ends, then complete all recordings."""
        while True:
            stuck = [number for number, session in self._sessions.items() if session.is_stuck]
            if stuck and not is_readable(0, RETRY_S):
                self._drain_sessions(stuck)
                continue
            data = os.read(0, _READ_BYTES)
            if not data:
                break
            self._obey_lines(data)
        self._end_orphans()
        for number, session in list(self._sessions.items()):
            session.end(b"")
            self._work_on(number, session.give_up)

    def _obey_lines(self, data: bytes) -> None:
        *lines, self._beginning = (self._beginning + data).split(b"\n")
        news: dict[int, None] = {}
        for line in lines:
            word, _, rest = line.decode("utf-8", "surrogateescape").partition(" ")
            if word == "open":
                number, pid, trace = rest.split(" ", 2)
                self._open_session(int(number), int(pid), trace)
                news[int(number)] = None
            elif word == "rest":
                number, _, records = rest.partition(" ")
                if session := self._sessions.get(int(number)):
                    session.end(b64decode(records))
            else:
                news.update(dict.fromkeys(map(int, rest.split())))
        self._drain_sessions(list(news))

    def _open_session(self, number: int, pid: int, trace: str) -> None:
        try:
            self._sessions[number] = JournaledSession(number, pid, trace, self._mode, is_quiet=self._is_quiet)
        except (McpProxyError, OSError) as fault:
            self._say(f"session {number} is not recorded: {fault}")

    def _drain_sessions(self, numbers: list[int]) -> None:
        for number in numbers:
            if session := self._sessions.get(number):
                self._work_on(number, session.drain)

    def _work_on(self, number: int, work: Callable[[], bool]) -> None:
        """Call ``work``, a method of the session that returns whether its recording is complete.

        If ``work`` raises, only the recording of that session ends.
        """
        session = self._sessions[number]
        try:
            is_complete = work()
        except Exception as fault:
            # No caller would catch it. The journal stays, and a later mcpproxy command completes the trace.
            self._say(
                f"session {number}: recording stopped, a fault of mcpproxy: {fault!r}; please report it"
            )
            with suppress(OSError):
                session.close()
            is_complete = True
        if is_complete:
            self._sessions.pop(number, None)

    def _say(self, text: str) -> None:
        notes = StderrNotes(None if self._is_quiet else 2, self._mode, "stdio leg")
        notes.say(text)
        notes.drain(_LAST_NOTES_S)

    def _end_orphans(self) -> None:
        """End the servers whose bridge was killed. Most exit by themselves, because their stdin has ended."""
        for number, wait_s in zip((signal.SIGTERM, signal.SIGKILL), ORPHAN_S, strict=True):
            deadline = time.monotonic() + wait_s
            for session in self._sessions.values():
                if session.pidfd >= 0 and not is_readable(session.pidfd, deadline - time.monotonic()):
                    with suppress(OSError):
                        signal.pidfd_send_signal(session.pidfd, number)
        deadline = time.monotonic() + _KILLED_S
        for session in self._sessions.values():
            if session.pidfd >= 0:
                is_readable(session.pidfd, deadline - time.monotonic())  # a pidfd is readable after the exit


def _pidfd(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):  # not Linux, an old kernel, or the server has exited already
        return -1


def main() -> None:
    """Record until stdin ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--live", default="text")
    parser.add_argument("--quiet", action="store_true")
    args = parser.parse_args()
    if args.live == "json":
        use_json()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    os.set_blocking(2, False)
    raise_limit()
    priority.lower()
    gc.freeze()
    SessionRecorder(cast("Mode", args.live), is_quiet=args.quiet).run()


if __name__ == "__main__":
    main()
