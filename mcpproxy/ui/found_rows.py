"""A search of all recordings, for the page: as many rows as one answer has, in a bounded time."""

from collections.abc import Iterator, Mapping
from typing import Final

from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.session.filter import Filter
from mcpproxy.session.outcomes import ERRORS, Outcome
from mcpproxy.ui import json_rows
from mcpproxy.ui.library import NoRecordingError
from mcpproxy.view.calls import Call
from mcpproxy.view.recording_entry import RecordingEntry
from mcpproxy.view.rows.search_recordings import RecordingSearch, calls_after
from mcpproxy.view.view import View, open_view

MOST_ROWS: Final = 200
_SEARCH_S: Final = 2.0
"""The most rows of one answer, and after which time no further recording is opened for it."""

_MOST_RECORDS: Final = 200
"""How many records of a call are read to say why it has no result: those at both ends."""


def found_rows(
    entries: Mapping[str, RecordingEntry], wanted: Filter, begin: str = "", last: int = 0
) -> JSONObject:
    """Return rows that pass ``wanted``. ``static/types.js`` describes the answer as ``FoundRows``.

    ``entries`` are searched in their order: from the one with the id ``begin`` on, and of that one only the
    rows after ``last``; without ``begin``, all of them. No recording is changed.

    Raises:
        NoRecordingError: no recording has the id ``begin``.
    """
    ids = list(entries)
    if begin and begin not in entries:
        raise NoRecordingError("The recording from which to go on is gone; search again.")

    def found(id: str, view: View) -> Iterator[JSONObject]:
        calls = calls_after(view, wanted, last if id == begin else 0)
        return ({"recording": id, **json_rows.call(call), "cause": _cause(view, call)} for call in calls)

    search = RecordingSearch(ids, lambda each: open_view(entries[each].path, only_reads=True))
    rows: list[JSONObject] = []
    following: JSONObject | None = None
    for row in search.results(found, ids.index(begin) if begin else 0, _SEARCH_S):
        if len(rows) == MOST_ROWS:
            following = {"recording": rows[-1]["recording"], "after": rows[-1]["number"]}
            break
        rows.append(row)
    if following is None and search.place < len(ids):
        following = {"recording": ids[search.place], "after": 0}
    return {
        "rows": [*rows],
        "searched": search.place,
        "recordings": len(ids),
        "unreadable": len(search.faults),
        "next": following,
    }


def _cause(view: View, call: Call) -> str:
    """Return why a call has no result, in a sentence; empty if it has one."""
    if call.outcome not in (*ERRORS, Outcome.UNANSWERED, Outcome.CANCELLED):
        return ""
    return view.parts(call.number, _MOST_RECORDS).cause
