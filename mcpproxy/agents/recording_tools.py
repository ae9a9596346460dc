"""Tools that find recordings and calls. The docstring of a tool is its description."""

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Final

from mcpproxy.agents import cursors
from mcpproxy.agents.answer_types import (
    CallPage,
    CallRow,
    RecordingDetail,
    RecordingPage,
    RecordingRow,
    RunPage,
    RunRow,
    SessionRow,
)
from mcpproxy.agents.errors import AgentError
from mcpproxy.agents.pages import AnswerPage
from mcpproxy.agents.recording_library import ListedRecording, RecordingLibrary
from mcpproxy.agents.tool_arguments import Cursor, FilterText, Handle, HandleOrAll, Limit, MatchText
from mcpproxy.session.filter import Filter, parse_filter
from mcpproxy.view.call_members import call_members, milliseconds
from mcpproxy.view.calls import Call, SessionSummary
from mcpproxy.view.rows.search_recordings import RecordingSearch, calls_after
from mcpproxy.view.runs import ClientRun
from mcpproxy.view.view import View

_MAX_NOTES: Final = 10
_MAX_IN_RUN: Final = 20

_SEARCH_S: Final = 2.0
"""After this time no further recording is searched for one answer; the next call continues there. Within a
recording, the search runs until the page is full, however long that takes."""


class RecordingTools:
    """Tools over the recordings of ``library``. ``clock`` returns seconds."""

    def __init__(self, library: RecordingLibrary, clock: Callable[[], float] = time.monotonic) -> None:
        self._library: Final = library
        self._clock: Final = clock

    def list_recordings(self, match: MatchText = "", cursor: Cursor = "", limit: Limit = 20) -> RecordingPage:
        """List recordings of MCP sessions, the latest first."""
        question = ("list_recordings", match)
        wanted = match.casefold()
        listed = self._library.recordings(probes="/" in wanted)
        if match:
            listed = [each for each in listed if wanted in self._searched_text(each).casefold()]
        last = cursors.read(question, cursor)
        start = _after([each.order for each in listed], last) if cursor else 0
        rows, has_more = AnswerPage(limit).fill(map(self._recording_row, listed[start:]))
        last = listed[start + len(rows) - 1].order if has_more else (0, "")
        return RecordingPage(rows, len(listed), cursors.write(question, last) if has_more else "")

    def _searched_text(self, listed: ListedRecording) -> str:
        entry = listed.entry
        return "\n".join(
            (listed.handle, *map(self._library.shown, (entry.label, entry.server, entry.client)))
        )

    def _recording_row(self, listed: ListedRecording) -> RecordingRow:
        entry, shown = listed.entry, self._library.shown
        return RecordingRow(
            recording=listed.handle,
            state=entry.state,
            server=shown(f"{entry.server} {entry.server_version}".strip() or entry.upstream),
            client=shown(f"{entry.client} {entry.client_version}".strip()),
            label=shown(entry.label),
            transport=shown(entry.transport),
            revision=shown(entry.revision),
            started_at=shown(entry.started_at),
            duration_ms=milliseconds(entry.duration_ns),
            frames=entry.frames,
            calls=entry.calls and entry.calls.total,
            failed=entry.calls and entry.calls.failed,
            unanswered=entry.calls and entry.calls.unanswered,
            findings={name: count for name, count in (entry.findings or {}).items() if count},
            ended=shown(entry.ended) if entry.ended != entry.state else "",
        )

    def list_runs(self, cursor: Cursor = "", limit: Limit = 10) -> RunPage:
        """List runs, the latest first: recordings of several servers that one client process used."""
        question = ("list_runs",)
        found = [run for run in reversed(self._library.runs()) if len(run.entries) > 1]
        last = cursors.read(question, cursor)
        orders = [self._order(run) for run in found]
        start = _after(orders, last) if cursor else 0
        rows, has_more = AnswerPage(limit).fill(map(self._run_row, found[start:]))
        last = orders[start + len(rows) - 1] if has_more else (0, "")
        return RunPage(rows, len(found), cursors.write(question, last) if has_more else "")

    def _order(self, run: ClientRun) -> tuple[int, str]:
        return run.started_ns, self._library.handle_of(run.entries[0].path)

    def _run_row(self, run: ClientRun) -> RunRow:
        handles = [self._library.handle_of(entry.path) for entry in run.entries]
        return RunRow(
            client=self._library.shown(run.client),
            started_at=self._library.shown(run.entries[0].started_at),
            certainty=run.certainty,
            recordings=handles[:_MAX_IN_RUN],
            why=self._library.shown(run.why),
            more_recordings=max(0, len(handles) - _MAX_IN_RUN),
        )

    def describe_recording(self, recording: Handle = "", cursor: Cursor = "") -> RecordingDetail:
        """Describe a recording: its sessions, how it ended, and what is missing from it."""
        opened = self._library.opened(self._library.find(recording))
        question = ("describe_recording", opened.handle)
        start, _ = cursors.read(question, cursor)
        view = opened.view
        notes = [*view.notes, *([view.not_judged] if view.not_judged else [])]
        about = RecordingDetail(
            about=self._recording_row(opened.listed),
            rows=view.count(),
            sessions=[],
            target=self._library.target_of(view),
            missing=[self._library.shown(note) for note in notes[:_MAX_NOTES]],
        )
        rows, has_more = AnswerPage(100, about).fill(map(self._session_row, view.sessions[start:]))
        next = cursors.write(question, (start + len(rows), "")) if has_more else ""
        return RecordingDetail(about.about, about.rows, rows, about.target, about.missing, next)

    def _session_row(self, session: SessionSummary) -> SessionRow:
        shown = self._library.shown
        return SessionRow(
            number=session.number,
            protocol=session.protocol,
            rows=session.rows,
            name=shown(session.name),
            client=shown(f"{session.client} {session.client_version}".strip()),
            server=shown(f"{session.server} {session.server_version}".strip()),
            revision=shown(session.revision),
            started_ms=milliseconds(session.started_ns),
            ended_ms=milliseconds(session.ended_ns),
            failed=session.failed,
            unanswered=session.unanswered,
            findings=session.findings,
        )

    def find_calls(
        self, filter: FilterText = "", recording: HandleOrAll = "", cursor: Cursor = "", limit: Limit = 20
    ) -> CallPage:
        """Find calls: requests with their answers.

        Without a recording, all are searched. If note says that not all were, go on with next.
        """
        wanted = parse_filter(filter)
        if recording:
            return self._find_in_one(wanted, self._library.find(recording), cursor, limit)
        return self._find_in_all(wanted, cursor, limit)

    def _find_in_one(self, wanted: Filter, listed: ListedRecording, cursor: str, limit: int) -> CallPage:
        question = ("find_calls", wanted.text, listed.handle)
        last, _ = cursors.read(question, cursor)
        opened = self._library.opened(listed)
        found = (call_row(opened.handle, call) for call in calls_after(opened.view, wanted, last))
        rows, has_more = AnswerPage(limit).fill(found)
        next = cursors.write(question, (rows[-1].call, "")) if has_more else ""
        return CallPage(rows, opened.view.count(wanted), next=next)

    def _find_in_all(self, wanted: Filter, cursor: str, limit: int) -> CallPage:
        question = ("find_calls", wanted.text, "")
        last, handle = cursors.read(question, cursor)
        listed = self._library.recordings()
        places = [each.handle for each in listed]
        if cursor and handle not in places:
            raise AgentError("cursor: its recording is gone; repeat the call without it")

        def found(each: ListedRecording, view: View) -> Iterator[CallRow]:
            first = last if each.handle == handle else 0
            return (call_row(each.handle, call) for call in calls_after(view, wanted, first))

        search = RecordingSearch(
            listed, lambda each: nullcontext(self._library.opened(each).view), self._clock
        )
        place = places.index(handle) if cursor else 0
        rows, has_more = AnswerPage(limit).fill(search.results(found, place, _SEARCH_S))
        next = ""
        if has_more:
            next = cursors.write(question, (rows[-1].call, rows[-1].recording))
        elif search.place < len(listed):
            next = cursors.write(question, (0, places[search.place]))
        unreadable = len(search.faults)
        note = "" if rows else _nothing_found(search.place, len(listed), unreadable, cursor, next)
        return CallPage(rows, None, search.place, len(listed), unreadable, note, next)


def _nothing_found(searched: int, total: int, unreadable: int, cursor: str, next: str) -> str:
    """Explain a page without calls, so that no agent concludes that there are none."""
    parts = [f"searched {searched} of {total} recordings"]
    parts += [f"{unreadable} of them could not be read"] if unreadable else []
    if next:
        parts.append("no call found so far; call again with next as cursor")
    else:
        parts.append("no more calls" if cursor else "no call fits")
    return ", ".join(parts)


def call_row(handle: str, call: Call) -> CallRow:
    """Return a call of a recording. Its texts are masked and shortened by the view."""
    return CallRow(
        recording=handle, call=call.number, at_ms=milliseconds(call.started_ns), **call_members(call)
    )


def _after(orders: list[cursors.Position], last: cursors.Position) -> int:
    """Return the first place whose order is below ``last``; ``orders`` descend."""
    return next((place for place, order in enumerate(orders) if order < last), len(orders))
