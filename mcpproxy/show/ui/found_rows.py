"""A search of all recordings, for the page: as many rows as one answer has, in a bounded time."""

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
_SEARCH_S: Final = 2.0
"""The most rows of one answer, and after which time no further recording is opened for it."""

_MOST_RECORDS: Final = 200
"""How many records of a call are read to say why it has no result: those at both ends."""

_SEEN: Final = 45
"""How many characters of arguments and result are seen in a row of a narrow window."""


class FolderSearch:
    """Searches one after the other, however often the page asks while somebody types.

    One whose request has ended is not begun, or ends with the recording that it reads.
    """

    def __init__(self) -> None:
        self._lock: Final = anyio.Lock()

    async def rows(
        self, request: Request, entries: Mapping[str, RecordingEntry], wanted: Filter, begin: str, last: int
    ) -> JSONObject:
        """Return what ``found_rows`` finds for a request; nothing if that has ended."""
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
    """Return rows that pass ``wanted``, and after those of each recording the findings about no row.

    ``static/types.js`` describes the answer as ``FoundRows``.

    ``entries`` are searched in their order: from the one with the id ``begin`` on, and of that one only the
    rows after ``last``; without ``begin``, all of them. One that is known to have nothing that passes is not
    opened. No recording is changed. When ``is_over``, no further one is opened.

    Raises:
        NoRecordingError: no recording has the id ``begin``.
    """
    ids = [id for id, entry in entries.items() if id == begin or _may_have(entry, wanted)]
    if begin and begin not in entries:
        raise NoRecordingError("The recording from which to go on is gone; search again.")

    def found(id: str, view: View) -> Iterator[tuple[int, JSONObject]]:
        """Yield what was found, each with the row before it."""
        if entries[id].has_not_begun and _asks_for_failures(wanted):
            yield 0, {"recording": id, "ended": entries[id].ended}
        passages = _passages(view, wanted)
        for call in calls_after(view, wanted, last if id == begin else 0):
            cause = _cause(view, call)
            preview = call.arguments if cause else f"{call.arguments} → {call.result}"
            seen = f"{call.method} {call.target}\n{preview[:_SEEN]}\n{cause}".lower()
            told = (one for one in passages(call.number) if one.found.lower() not in seen)
            row: JSONObject = {
                "recording": id,
                **json_rows.call(call),
                "cause": cause,
                "worst": _told(view.findings.worst_of_row(call.number)),
                "found": [*next(told, ())],
            }
            yield call.number - 1, row
        if of_sessions := findings_of_sessions(view, wanted):
            yield (
                view.count(),
                {"recording": id, "whole": len(of_sessions), "worst": _told(worst(of_sessions))},
            )

    search = RecordingSearch(
        ids,
        lambda each: open_view(entries[each].path, only_reads=True),
        lambda: math.inf if is_over() else time.monotonic(),
    )
    rows: list[JSONObject] = []
    following: JSONObject | None = None
    for after, row in search.results(found, ids.index(begin) if begin else 0, _SEARCH_S):
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


def _may_have(entry: RecordingEntry, wanted: Filter) -> bool:
    """Whether a recording may have what passes a filter, by what was counted when it ended."""
    if entry.running:
        return True
    if not may_have_failed_calls(entry, wanted):
        return False
    severities = [term.values for term in wanted.terms if term.key == "severity" and not term.negated]
    counts = entry.findings
    return counts is None or all(any(counts.get(str(each)) for each in values) for values in severities)


def _asks_for_failures(wanted: Filter) -> bool:
    """Whether a filter leaves only calls that were not successful. An exchange without a request of JSON-RPC
    is no call."""
    asked = {(term.key, term.values) for term in wanted.terms if not term.negated}
    return asked >= {("kind", ("request",)), ("status", ("unsuccessful",))}


def _cause(view: View, call: Call) -> str:
    """Return why a call has no result, in a sentence; empty if it has one."""
    if call.outcome not in UNSUCCESSFUL - {Outcome.REFUSED}:
        return ""
    return view.parts(call.number, _MOST_RECORDS).cause


def _told(finding: Finding | None) -> JSONObject | None:
    """Return a finding, with the beginning of its text."""
    if finding is None:
        return None
    return {"rule": finding.rule, "severity": finding.severity, "message": shortened(finding.message)}


def _passages(view: View, wanted: Filter) -> Callable[[int], Iterator[Passage]]:
    """Return a function that yields where a row that passes ``wanted`` has its free texts."""
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
