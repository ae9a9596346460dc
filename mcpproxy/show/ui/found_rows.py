"""A search of all recordings, for the page: at most ``MOST_ROWS`` rows, in a bounded time."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, cast

import anyio
import anyio.from_thread
import anyio.to_thread
from starlette.requests import Request

from mcpproxy.judge.session.filter import Filter
from mcpproxy.judge.session.frame import Finding
from mcpproxy.judge.session.outcomes import UNSUCCESSFUL, Outcome
from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.read.view.call_reader import shortened
from mcpproxy.read.view.calls import Call
from mcpproxy.read.view.recorded_findings import worst
from mcpproxy.read.view.recording_entry import RecordingEntry
from mcpproxy.read.view.rows.search import Passage, passage
from mcpproxy.read.view.rows.search_recordings import (
    RecordingSearch,
    calls_after,
    findings_of_sessions,
    may_have_failed_calls,
)
from mcpproxy.read.view.view import View, open_view
from mcpproxy.show.ui import json_rows
from mcpproxy.show.ui.library import NoRecordingError

MOST_ROWS: Final = 200
"""The most rows of one answer."""
_SEARCH_S: Final = 2.0
"""After this time, no further recording is opened for an answer."""

_MOST_RECORDS: Final = 200
"""How many records of a call, at both ends, are read to find out why it has no result."""

_VISIBLE_CHARACTERS: Final = 45
"""How many characters of arguments and result are visible in a row of a narrow window."""


class FolderSearch:
    """Runs one search at a time, however often the page asks while somebody types.

    A search whose request has ended does not begin, or stops after the recording that it is reading.
    """

    def __init__(self) -> None:
        self._lock: Final = anyio.Lock()

    async def rows(
        self, request: Request, entries: Mapping[str, RecordingEntry], wanted: Filter, begin: str, last: int
    ) -> JSONObject:
        """Return what ``found_rows`` finds for ``request``; an empty object if it ended before its turn."""
        is_over = partial(anyio.from_thread.run, request.is_disconnected)
        async with self._lock:
            if await request.is_disconnected():
                return {}
            return await anyio.to_thread.run_sync(found_rows, entries, wanted, begin, last, is_over)


def found_rows(
    entries: Mapping[str, RecordingEntry],
    wanted: Filter,
    begin: str = "",
    last: int = 0,
    is_over: Callable[[], bool] = lambda: False,
) -> JSONObject:
    """Return rows that pass ``wanted``, and where to continue if there may be more.

    The findings of a recording that belong to none of its rows share one row after them. If ``wanted`` asks
    for unsuccessful calls, a recording whose server failed before any message has a row, too.
    ``static/types.js`` describes the answer as ``FoundRows``.

    ``entries`` are searched in their order, from the recording with the id ``begin`` on; of this recording,
    only the rows after ``last``. Without ``begin``, all are searched. A recording is not opened if nothing in
    it can pass, nor once ``is_over()`` is true. No recording is changed.

    Raises:
        NoRecordingError: no recording has the id ``begin``.
    """
    ids = [id for id, entry in entries.items() if id == begin or _may_match(entry, wanted)]
    if begin and begin not in entries:
        raise NoRecordingError("The recording from which to go on is gone; search again.")

    def recording_rows(id: str, view: View) -> Iterator[tuple[int, JSONObject]]:
        """Yield the rows of the answer, each with the number of the call before it."""
        if entries[id].has_not_begun and wanted.asks_for_failures:
            yield 0, {"recording": id, "ended": entries[id].ended}
        passages = _passages(view, wanted)
        for call in calls_after(view, wanted, last if id == begin else 0):
            cause = _cause(view, call)
            preview = call.arguments if cause else f"{call.arguments} → {call.result}"
            shown = f"{call.method} {call.target}\n{preview[:_VISIBLE_CHARACTERS]}\n{cause}".lower()
            hidden = (place for place in passages(call.number) if place.found.lower() not in shown)
            row: JSONObject = {
                "recording": id,
                **json_rows.call(call),
                "cause": cause,
                "worst": _finding_row(view.findings.worst_of_row(call.number)),
                "found": [*next(hidden, ())],
            }
            yield call.number - 1, row
        if session_findings := findings_of_sessions(view, wanted):
            severest = _finding_row(worst(session_findings))
            yield view.count(), {"recording": id, "whole": len(session_findings), "worst": severest}

    search = RecordingSearch(
        ids,
        lambda key: open_view(entries[key].path, only_reads=True),
        lambda: math.inf if is_over() else time.monotonic(),
    )
    rows: list[JSONObject] = []
    following: JSONObject | None = None
    for after, row in search.results(recording_rows, ids.index(begin) if begin else 0, _SEARCH_S):
        if len(rows) == MOST_ROWS:
            following = {"recording": row["recording"], "after": after}
            break
        rows.append(row)
    if following is None and search.place < len(ids):
        following = {"recording": ids[search.place], "after": 0}
    return {
        "rows": [*rows],
        "searched": len(entries) - len(ids) + search.place,
        "recordings": len(entries),
        "unreadable": len(search.faults),
        "next": following,
    }


def _may_match(entry: RecordingEntry, wanted: Filter) -> bool:
    """Whether something in a recording may pass a filter, by its counts of calls and findings."""
    if entry.running:
        return True
    if not may_have_failed_calls(entry, wanted):
        return False
    severities = [term.values for term in wanted.terms if term.key == "severity" and not term.negated]
    counts = entry.findings
    return counts is None or all(any(counts.get(str(value)) for value in values) for values in severities)


def _cause(view: View, call: Call) -> str:
    """Return why a call has no result, in a sentence; empty if it has one, or was refused by mcpproxy."""
    if call.outcome not in UNSUCCESSFUL - {Outcome.REFUSED}:
        return ""
    return view.parts(call.number, _MOST_RECORDS).cause


def _finding_row(finding: Finding | None) -> JSONObject | None:
    """Return a finding, with the beginning of its text; ``None`` for none."""
    if finding is None:
        return None
    return {"rule": finding.rule, "severity": finding.severity, "message": shortened(finding.message)}


def _passages(view: View, wanted: Filter) -> Callable[[int], Iterator[Passage]]:
    """Return a function that yields the passages of a row that have the free texts of ``wanted``."""
    terms = [term for term in wanted.terms if term.key == "text" and not term.negated]
    searched = [cast("tuple[str, ...]", term.values) for term in terms]
    lines_of: list[dict[int, int]] = []

    def passages(row: int) -> Iterator[Passage]:
        if not lines_of:
            lines_of.extend(map(view.index.lines_with_text, searched))
        for texts, lines in zip(searched, lines_of, strict=True):
            if (line := lines.get(row)) and (found := passage(view.index.reader.record(line), texts)):
                yield found

    return passages
