"""``show --follow``: calls of a session while it is recorded, then those of the sessions after it.

A call is printed when it has its answer. On a terminal, open calls are shown at the bottom with running
timers. In a pipe, a call that waits for more than five seconds is also printed before its answer.

The relay, which passes the messages on, copies them to the journal; the recorder makes the recording from it.
"""

import os
import time
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from mcpproxy.base import paths
from mcpproxy.base.style import count
from mcpproxy.base.visible import visible
from mcpproxy.cli import find_traces
from mcpproxy.cli.calls.lines_of_calls import CallLines, session_marks
from mcpproxy.cli.calls.listing import footer_lines, header_lines, why_lines
from mcpproxy.cli.calls.screen import Screen
from mcpproxy.cli.terminal import tell
from mcpproxy.errors import TraceError
from mcpproxy.judge.session.filter import Filter, parse_filter
from mcpproxy.judge.session.frame import Finding
from mcpproxy.judge.session.outcomes import Kind, Outcome
from mcpproxy.read.opening import when_begun
from mcpproxy.read.view.calls import Call
from mcpproxy.read.view.causes import LOST
from mcpproxy.read.view.folder import recording
from mcpproxy.read.view.view import View, open_view
from mcpproxy.record.relay import journal

T = TypeVar("T")

POLL_S: Final = 0.1
"""The time between two looks at a recording or a folder."""
_LONG_NS: Final = 5_000_000_000
"""In a pipe, an open call is printed after this time."""
_START_S: Final = 10.0
"""How long to wait for the recorder, which starts after the relay has begun the journal."""
_LOOK_BACK: Final = 50
"""How many of the latest recordings of a folder are searched for running ones."""


def follow_calls(named: str | None, wanted: Filter, screen: Screen) -> int:
    """Follow one recording until it ends; without a name, or with a folder, follow one after the other.

    Only calls that pass the filter ``wanted`` are printed. Return the exit code, which is 0.

    Raises:
        TraceError: the one recording cannot be read.
        UsageError: ``named`` means no recording.
    """
    if named is not None and not os.path.isdir(named):
        path = find_traces.one(named)
        follow_one(path, wanted, screen)
        return 0
    folder = named or paths.state_dir()
    for path in sessions_of(folder):
        try:
            follow_one(path, wanted, screen)
        except TraceError as fault:
            tell(str(fault))
        screen.print([""])
    return 0


def sessions_of(folder: str) -> Iterator[str]:
    """Yield the path of the latest running recording in a folder, then of the others, the oldest first.

    The others are those that run already and those that begin later. The iterator never ends.
    """
    recordings = find_traces.recent(folder)
    running = [path for path in recordings[:_LOOK_BACK] if recording(path).running]
    seen = set(recordings) - set(running)
    while True:
        new = [path for path in find_traces.recent(folder) if path not in seen]
        if not new:
            tell(f"waiting for a session to begin in {folder}; Ctrl-C ends")
            while not (new := [path for path in find_traces.recent(folder) if path not in seen]):
                time.sleep(POLL_S)
        # ``new`` begins with the newest. First take the latest that runs, afterwards always the oldest.
        path = new[-1] if not running else new[0]
        running = []
        seen.add(path)
        yield path


def follow_one(path: str, wanted: Filter, screen: Screen, *, poll_s: float = POLL_S) -> None:
    """Print the calls of one recording that pass ``wanted`` until it ends, then how it ended.

    ``poll_s`` is the time between two looks at the recording.

    Raises:
        TraceError: the recording cannot be read.
    """
    with _open_begun(path) as view:
        followed = FollowedSession(view, wanted, screen)
        followed.print_header()
        followed.print_until_end(poll_s)
        screen.redraw([])
        screen.print(footer_lines(view, wanted, screen.style))


def print_calls(path: str, screen: Screen) -> None:
    """Print only the calls of one recording, without findings, until it ends.

    Raises:
        TraceError: the recording cannot be read.
    """
    with _open_begun(path) as view:
        FollowedSession(view, parse_filter(""), screen, judges=False).print_until_end(POLL_S)


def _open_begun(path: str) -> View:
    return open_begun(path, lambda: open_view(path))


def open_begun(path: str, open: Callable[[], T]) -> T:
    """Open a recording. If it is just starting, wait until ``open`` finds its beginning.

    Raises:
        TraceError: the recording cannot be read.
    """
    give_up_s = time.monotonic() + _START_S

    def may_begin() -> bool:
        # The recorder takes its lock a moment after the journal was created.
        is_late = time.monotonic() > give_up_s and recording(path).state != "starting"
        return not is_late and os.path.isdir(journal.folder(path))

    return when_begun(open, may_begin, lambda: time.sleep(POLL_S / 2))


class FollowedSession:
    """Prints one recording while it is made, and remembers which calls wait for an answer.

    With ``judges``, findings are printed, too.
    """

    def __init__(self, view: View, wanted: Filter, screen: Screen, *, judges: bool = True) -> None:
        self._judges: Final = judges
        self._view: Final = view
        self._wanted: Final = wanted
        self._screen: Final = screen
        self._waiting: list[int] = []
        """The rows of open calls, and of requests within them."""
        self._next_row = 1
        self._read_finding_count = 0
        """How many findings of the recording were read."""
        self._findings: dict[int, list[Finding]] = {}
        """Row -> its findings that were not printed yet."""
        self._early: set[int] = set()
        """The rows of calls that were printed before they had an answer."""

    def print_header(self) -> None:
        """Print the header of the recording and the names of the columns."""
        view, style = self._view, self._screen.style
        sessions = view.sessions if view.header.transport == "stdio" else ()
        self._screen.print(header_lines(view.path, view.header, sessions, style))
        self._screen.print([style.paint(CallLines(style).heading, "dim")])

    def print_until_end(self, poll_s: float) -> None:
        """Print the calls as they are recorded, until the recording ends."""
        while self._view.running:
            self.print_news()
            time.sleep(poll_s)
            self._view.refresh()
        self.print_news()

    def print_news(self) -> None:
        """Print the rows recorded since the last call of this method, and show the open calls."""
        view, style = self._view, self._screen.style
        lines = CallLines(style, session_marks(view.sessions))
        printed: list[str] = []
        self._collect_findings()
        waiting: dict[int, Call] = {}
        inner: dict[int, list[Call]] = {}
        for row in [*self._waiting, *self._new_rows()]:
            call = view.call(row)
            if call.parent in waiting:
                inner.setdefault(call.parent, []).append(call)
            elif view.running and _is_waiting(call):
                waiting[row] = call
            else:
                printed += self._call_lines(call, lines, is_inner=bool(call.parent))
        # Requests of the server stay with their call, so that both are printed together.
        self._waiting = sorted([*waiting, *(call.number for calls in inner.values() for call in calls)])
        printed += self._late_finding_lines(lines)
        if not self._screen.rewrites:
            printed += self._long_waiting_lines(waiting, lines)
        if printed:
            self._screen.print(printed)
        if self._screen.rewrites:
            self._screen.redraw(self._live_lines(waiting, inner))

    def _new_rows(self) -> list[int]:
        """Return the numbers of the new rows that pass the filter."""
        new = range(self._next_row, self._view.count() + 1)
        # While no recorder writes the trace, the view shows a draft: a copy, completed from the journal. The
        # trace that takes the place of the draft may be a row behind the draft for a moment.
        self._next_row = max(self._next_row, new.stop)
        if not self._wanted:
            return list(new)
        passing = set(self._view.numbers(self._wanted))
        return [row for row in new if row in passing]

    def _late_finding_lines(self, lines: CallLines) -> list[str]:
        """Return the lines of findings about calls that were printed before, and about the session.

        With a filter, these findings are left out.
        """
        printed: list[str] = []
        for row in [row for row in self._findings if row < self._next_row and row not in self._waiting]:
            where = f" (call {row})" if row else " (about the session)"
            findings = self._findings.pop(row)
            printed += [] if self._wanted else lines.findings(findings, where=where)
        return printed

    def _call_lines(self, call: Call, lines: CallLines, *, is_inner: bool) -> list[str]:
        printed = lines.call(call, is_inner=is_inner)
        if call.outcome in LOST:
            printed += why_lines(self._view, call, lines)
        return [*printed, *lines.findings(self._findings.pop(call.number, ()))]

    def _collect_findings(self) -> None:
        """Add the new findings to ``_findings``, under the number of their row."""
        if not self._judges or sum(self._view.findings.counts().values()) == self._read_finding_count:
            return
        findings = self._view.findings.with_texts()
        for new in findings[self._read_finding_count :]:
            self._findings.setdefault(new.row, []).append(new.finding)
        self._read_finding_count = max(self._read_finding_count, len(findings))

    def _long_waiting_lines(self, waiting: dict[int, Call], lines: CallLines) -> list[str]:
        """Return the lines of calls that have waited long and were not printed yet."""
        printed: list[str] = []
        for row, call in waiting.items():
            if row not in self._early and (call.waited_ns or 0) >= _LONG_NS:
                self._early.add(row)
                printed += lines.call(call, is_running=True)
        return printed

    def _live_lines(self, waiting: dict[int, Call], inner: dict[int, list[Call]]) -> list[str]:
        """Return the lines at the bottom of the screen; none when the recording has ended."""
        if not self._view.running:
            return []
        style = self._screen.style
        lines = CallLines(
            type(style)(width=style.width, unicode=style.unicode), session_marks(self._view.sessions)
        )
        shown: list[str] = []
        for row, call in waiting.items():
            shown += lines.call(call, is_running=True)
            for inner_call in inner.get(row, ()):
                shown += lines.call(inner_call, is_running=_is_waiting(inner_call), is_inner=True)
        label = visible(self._view.header.label)
        shown.append(f"recording {label}: {count(self._view.frames, 'frame')}; Ctrl-C ends")
        return shown


def _is_waiting(call: Call) -> bool:
    is_open = call.outcome is Outcome.UNANSWERED and not call.closed
    return is_open and call.kind in (Kind.REQUEST, Kind.EXCHANGE)
