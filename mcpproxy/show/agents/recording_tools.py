"""Tools that find recordings and calls. The docstring of a tool is its description."""

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Final

from mcpproxy.base.style import count
from mcpproxy.errors import TraceError
from mcpproxy.judge.session.filter import Filter, parse_filter
from mcpproxy.read.view.call_members import milliseconds
from mcpproxy.read.view.calls import Call, SessionSummary
from mcpproxy.read.view.negotiation import negotiations
from mcpproxy.read.view.rows.search_recordings import RecordingSearch, calls_after, may_have_failed_calls
from mcpproxy.read.view.runs import ClientRun
from mcpproxy.read.view.view import View
from mcpproxy.show.agents import cursors
from mcpproxy.show.agents.answer_types import (
    CallPage,
    FoundCalls,
    RecordingDetail,
    RecordingPage,
    RecordingRow,
    RunPage,
    RunRow,
    SessionRow,
)
from mcpproxy.show.agents.call_rows import call_row
from mcpproxy.show.agents.errors import AgentError
from mcpproxy.show.agents.pages import AnswerPage
from mcpproxy.show.agents.recording_library import ListedRecording, RecordingLibrary
from mcpproxy.show.agents.tool_arguments import Cursor, FilterText, Handle, HandleOrAll, Limit, MatchText

_MAX_NOTES: Final = 10
_MAX_IN_RUN: Final = 20
"""How many recordings of a run, which are those of one client process, are named at most."""

_SEARCH_S: Final = 2.0
"""After this time, no further recording is searched for an answer; the next call continues there. Within a
recording, the search runs until the page is full, however long that takes."""


class RecordingTools:
    """Tools over the recordings of ``library``. ``clock`` returns seconds."""

    def __init__(self, library: RecordingLibrary, clock: Callable[[], float] = time.monotonic) -> None:
        self._library: Final = library
        self._clock: Final = clock

    def list_recordings(self, match: MatchText = "", cursor: Cursor = "", limit: Limit = 20) -> RecordingPage:
        """List recordings of MCP sessions, the latest first."""
        question = ("list_recordings", match)
        listed = self._library.matching(match)
        position = cursors.read(question, cursor)
        start = _place_after([recording.order for recording in listed], position) if cursor else 0
        rows, has_more = AnswerPage(limit).fill(map(self._recording_row, listed[start:]))
        next = cursors.write(question, *listed[start + len(rows) - 1].order) if has_more else ""
        return RecordingPage(rows, len(listed), next)

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
            refused=entry.calls and entry.calls.refused,
            unanswered=entry.calls and entry.calls.unanswered,
            cancelled=entry.calls and entry.calls.cancelled,
            unreadable=entry.calls and entry.calls.unreadable,
            findings={name: count for name, count in (entry.findings or {}).items() if count},
            ended=shown(entry.ended) if entry.ended != entry.state else "",
        )

    def list_runs(self, cursor: Cursor = "", limit: Limit = 10) -> RunPage:
        """List runs, the latest first: recordings of several servers that one client process used."""
        question = ("list_runs",)
        listed_runs = [run for run in reversed(self._library.runs()) if len(run.entries) > 1]
        position = cursors.read(question, cursor)
        orders = [self._order(run) for run in listed_runs]
        start = _place_after(orders, position) if cursor else 0
        rows, has_more = AnswerPage(limit).fill(map(self._run_row, listed_runs[start:]))
        next = cursors.write(question, *orders[start + len(rows) - 1]) if has_more else ""
        return RunPage(rows, len(listed_runs), next)

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
        if not recording and (failed := self._library.failed_start_after(opened.listed)):
            notes.insert(0, f"a newer session, {failed}")
        about = RecordingDetail(
            about=self._recording_row(opened.listed),
            rows=view.count(),
            sessions=[],
            target=self._library.target_of(view),
            missing=[self._library.shown(note) for note in notes[:_MAX_NOTES]],
        )
        negotiated = negotiations(view)
        described = (
            self._session_row(session, negotiated.get(session.number, ""))
            for session in view.sessions[start:]
        )
        rows, has_more = AnswerPage(100, about).fill(described)
        next = cursors.write(question, start + len(rows)) if has_more else ""
        return RecordingDetail(about.about, about.rows, rows, about.target, about.missing, next)

    def _session_row(self, session: SessionSummary, negotiation: str) -> SessionRow:
        shown = self._library.shown
        return SessionRow(
            number=session.number,
            protocol=session.protocol,
            rows=session.rows,
            name=shown(session.name),
            client=shown(f"{session.client} {session.client_version}".strip()),
            server=shown(f"{session.server} {session.server_version}".strip()),
            revision=shown(session.revision),
            negotiation=shown(negotiation),
            started_ms=milliseconds(session.started_ns),
            ended_ms=milliseconds(session.ended_ns),
            failed=session.calls.failed,
            unanswered=session.calls.unanswered,
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
        """Return the calls of one recording that pass the filter, from ``cursor`` on."""
        question = ("find_calls", wanted.text, listed.handle)
        last, _ = cursors.read(question, cursor)
        opened = self._library.opened(listed)
        rows, has_more = AnswerPage(limit, opened.handle).fill(
            map(call_row, calls_after(opened.view, wanted, last))
        )
        next = cursors.write(question, rows[-1].call) if has_more else ""
        found = [FoundCalls(opened.handle, rows)] if rows else []
        notes = ["the recording was not judged, so it has no findings"] * _lacks_findings(opened.view, wanted)
        notes += [self._library.failed_start(listed)] if listed.entry.has_not_begun else []
        try:
            opened.view.index.refuse_damage()
        except TraceError:
            notes.append("a part of the recording cannot be read, so there may be other calls")
        return CallPage(found, opened.view.count(wanted), note=", ".join(notes), next=next)

    def _find_in_all(self, wanted: Filter, cursor: str, limit: int) -> CallPage:
        """Return the calls that pass the filter, from ``cursor`` on, those of the latest recording first.

        Raises:
            AgentError: the recording of the cursor is gone.
        """
        question = ("find_calls", wanted.text, "")
        last, mark = cursors.read(question, cursor)
        listed = self._library.recordings()
        marked = [recording for recording in listed if cursors.mark_of(recording.handle) == mark]
        if cursor and not marked:
            raise AgentError("cursor: its recording is gone; repeat the call without it")
        begin = marked[0] if cursor else None
        searched = [
            recording
            for recording in listed
            if recording is begin or may_have_failed_calls(recording.entry, wanted)
        ]
        unjudged, failed = 0, list[str]()

        def passing(recording: ListedRecording, view: View) -> Iterator[tuple[str, Call]]:
            nonlocal unjudged
            unjudged += _lacks_findings(view, wanted)
            if recording.entry.has_not_begun and wanted.asks_for_failures:
                failed.append(self._library.failed_start(recording))
            first = last if recording is begin else 0
            yield from ((recording.handle, call) for call in calls_after(view, wanted, first))

        search = RecordingSearch(
            searched, lambda recording: nullcontext(self._library.opened(recording).view), self._clock
        )
        place = searched.index(begin) if begin else 0
        page, found, next = AnswerPage(limit), list[FoundCalls](), ""
        for handle, call in search.results(passing, place, _SEARCH_S):
            row = call_row(call)
            is_first = not found or found[-1].recording != handle
            if not page.count_item(FoundCalls(handle, [row]) if is_first else row):
                next = cursors.write(question, found[-1].calls[-1].call, found[-1].recording)
                break
            if is_first:
                found.append(FoundCalls(handle, []))
            found[-1].calls.append(row)
        else:
            if search.place < len(searched):
                next = cursors.write(question, 0, searched[search.place].handle)
        # Recordings that were skipped have no call that passes, so they count as searched.
        searched_count = listed.index(searched[search.place]) if search.place < len(searched) else len(listed)
        unreadable = len(search.faults)
        notes = [f"{unreadable} of them could not be read whole"] if unreadable else []
        notes += [f"{unjudged} of them not judged, so without findings"] if unjudged else []
        notes += [self._library.left_out] if self._library.left_out else []
        notes += failed[:_MAX_NOTES]
        extent = _extent(found, notes, cursor, next)
        so_far = f"searched {searched_count:,} of {count(len(listed), 'recording')}"
        note = ", ".join([so_far, *notes, extent]) if extent else ""
        return CallPage(found, None, searched_count, len(listed), unreadable, note, next)


def _extent(found: list[FoundCalls], notes: list[str], cursor: str, next: str) -> str:
    """Return in words how complete a page is; empty if that is clear.

    Without these words, an agent might conclude that there are no other calls. ``notes`` name what was not
    searched or judged, or did not begin.
    """
    if next:
        so_far = "not all" if found else "no call found"
        return f"{so_far} so far; call again with next as cursor"
    if found:
        return "all others were searched" if notes else ""
    end = "no more calls" if cursor else "no call fits"
    return f"{end} in the others" if notes else end


def _lacks_findings(view: View, wanted: Filter) -> bool:
    """Whether a filter asks for findings, and the recording has none because it was not judged."""
    return any(term.key in ("rule", "severity") for term in wanted.terms) and bool(view.not_judged)


def _place_after(orders: list[tuple[int, str]], position: cursors.Position) -> int:
    """Return the index after the recording of a cursor in ``orders``, which descend by start and handle.

    If that recording is gone, return the first index whose start is not later.
    """
    number, mark = position
    first = len(orders)
    for place, (started_ns, handle) in enumerate(orders):
        if max(started_ns, 0) > number:
            continue
        first = min(first, place)
        if max(started_ns, 0) < number:
            break
        if cursors.mark_of(handle) == mark:
            return place + 1
    return first
