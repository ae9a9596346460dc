"""The recordings of the sessions with a stdio server: a journal for each, and one recorder process for all.

A journal has the raw bytes of a session, and the recorder makes the recording from them. It reads lines from
its stdin that say which journals exist and which have new records:

    open NUMBER PID TRACE     a session has begun; PID is its server
    news NUMBER...            the journals of these sessions have more records
    rest NUMBER BASE64        the last records of a session, which could not be written to its journal
"""

import asyncio
import os
import subprocess
from base64 import b64encode
from collections.abc import Callable
from typing import Final

from mcpproxy.base.own_process import own_command
from mcpproxy.peers.bridge.leg import StderrLines, forward_notes, wait_for_notes
from mcpproxy.record.relay import journal as journals
from mcpproxy.record.relay.exit_status import RECORDER_S, RecorderWait, no_recorder
from mcpproxy.record.relay.journal import Journal
from mcpproxy.record.relay.said_once import said_once

_NEWS_S: Final = 0.002
"""How long new records are collected before the recorder gets a ``news`` line."""

_FORGOTTEN_AFTER: Final = 256
"""Each time that this many sessions have begun, completed journals are forgotten."""

Begin = Callable[[int], tuple[str, Journal | None, str]]
"""Begins the recording of the session with this number.

Returns the path of the trace, the journal or ``None``, and a sentence for stderr that says why there is no
journal."""


class SessionJournal:
    """The journal of one session. ``journal`` is ``None`` if the session is not recorded."""

    def __init__(self, owner: "SessionRecordings", number: int, journal: Journal | None) -> None:
        self._owner: Final = owner
        self._number: Final = number
        self._journal = journal

    def append(self, kind: int, payload: bytes = b"") -> None:
        """Append a record to the journal."""
        if self._journal is not None:
            self._journal.append(kind, journals.now_ns(), payload)
            self._owner.on_news(self._number)

    def close(self, exit_record: bytes) -> None:
        """Append the last record, about the server's exit, and close the journal."""
        if self._journal is None:
            return
        now_ns = journals.now_ns()
        self._journal.append(journals.EXIT, now_ns, exit_record)
        unwritten = self._journal.close(now_ns)
        self._journal = None
        self._owner.on_closed(self._number, unwritten)


class SessionRecordings:
    """Begins recordings, and tells the recorder process of new records. ``options`` are its arguments."""

    def __init__(self, begin: Begin, options: list[str], stderr: StderrLines) -> None:
        self._begin: Final = begin
        self._options: Final = options
        self._stderr: Final = stderr
        self._recorder: subprocess.Popen[bytes] | None = None
        self._pending = bytearray()
        self._news: dict[int, None] = {}
        self._is_news_due = False
        self._last_number = 0
        self._say_once = said_once(self._stderr.say)
        self._journals: list[str] = []  # the folders of journals that the recorder may not have completed
        self._notes_ended = asyncio.Event()

    def begin(self, pid: int) -> SessionJournal:
        """Begin the recording of the session with the server ``pid``."""
        self._last_number += 1
        number = self._last_number
        try:
            trace, journal, sentence = self._begin(number)
        except Exception as fault:  # the session continues without a recording
            self._say_once(f"stdio leg: session {number} is not recorded ({fault})")
            return SessionJournal(self, number, None)
        if journal is None:
            self._say_once(f"stdio leg: {sentence}")
        else:
            journal.on_notice = self._stderr.say
            self._journals.append(journal.folder)
            if number % _FORGOTTEN_AFTER == 0:
                self._journals = [folder for folder in self._journals if os.path.lexists(folder)]
            self._ensure_recorder()
            self._send_line(f"open {number} {pid} {trace}")
        return SessionJournal(self, number, journal)

    def on_news(self, number: int) -> None:
        """Tell the recorder soon that a journal has more records."""
        self._news[number] = None
        if not self._is_news_due:
            self._is_news_due = True
            asyncio.get_running_loop().call_later(_NEWS_S, self._send_news)

    def on_closed(self, number: int, unwritten: bytes) -> None:
        """Send the recorder the last records of a closed journal, if these could not be written to it."""
        if unwritten:
            self._send_line(f"rest {number} {b64encode(unwritten).decode()}")
        self.on_news(number)

    async def close(self) -> None:
        """Let the recorder complete all traces, and wait a moment for it."""
        recorder = self._recorder
        if recorder is None:
            return
        assert recorder.stdin is not None
        self._send_news()
        wait = RecorderWait(RECORDER_S * 5, self._journals)
        while self._pending and wait.left_s() > 0:
            await asyncio.sleep(_NEWS_S)
        if not self._pending:
            recorder.stdin.close()
        await wait_for_notes(self._notes_ended, wait, self._stderr)

    def _ensure_recorder(self) -> None:
        if self._recorder is not None:
            return
        pipe = subprocess.PIPE
        command = own_command("mcpproxy.peers.bridge.session_recorder", *self._options)
        try:
            # A new session of processes: Ctrl-C in the terminal must not end the recorder before the servers.
            self._recorder = subprocess.Popen(
                command, stdin=pipe, stderr=pipe, stdout=subprocess.DEVNULL, bufsize=0, start_new_session=True
            )
        except OSError as fault:
            self._say_once(no_recorder(fault))
            return
        recorder = self._recorder
        assert recorder.stdin is not None
        assert recorder.stderr is not None
        for end in (recorder.stdin, recorder.stderr):
            os.set_blocking(end.fileno(), False)
        forward_notes(recorder.stderr.fileno(), self._stderr, self._on_notes_ended)

    def _send_news(self) -> None:
        self._is_news_due = False
        news, self._news = self._news, {}
        if news:
            self._send_line("news " + " ".join(map(str, news)))

    def _send_line(self, line: str) -> None:
        """Write a line to the recorder; the part for which its pipe has no room is written later."""
        is_first = not self._pending
        self._pending += line.encode("utf-8", "surrogateescape") + b"\n"
        if is_first:
            self._flush()
            if self._pending and self._recorder is not None:
                assert self._recorder.stdin is not None
                asyncio.get_running_loop().add_writer(self._recorder.stdin.fileno(), self._flush_rest)

    def _flush_rest(self) -> None:
        self._flush()
        if not self._pending and self._recorder is not None:
            assert self._recorder.stdin is not None
            asyncio.get_running_loop().remove_writer(self._recorder.stdin.fileno())

    def _flush(self) -> None:
        if self._recorder is None:
            self._pending.clear()
            return
        assert self._recorder.stdin is not None
        try:
            del self._pending[: os.write(self._recorder.stdin.fileno(), self._pending)]
        except BlockingIOError:
            pass
        except OSError:  # the recorder is gone; the journals keep the traffic
            self._pending.clear()

    def _on_notes_ended(self) -> None:
        if self._recorder is not None and self._recorder.stdin and not self._recorder.stdin.closed:
            self._say_once("the recorder has stopped; sessions go on and their journals keep the traffic")
        self._notes_ended.set()
