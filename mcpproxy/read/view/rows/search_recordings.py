"""Search many recordings, one after the other; the search may stop after a time and continue later."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from mcpproxy.errors import McpProxyError
from mcpproxy.judge.session.filter import STATUS, Filter, Term
from mcpproxy.judge.session.frame import Finding
from mcpproxy.judge.session.outcomes import UNSUCCESSFUL
from mcpproxy.read.view.calls import Call
from mcpproxy.read.view.recording_entry import RecordingEntry

if TYPE_CHECKING:
    from mcpproxy.read.view.view import View

_T = TypeVar("_T")
_R = TypeVar("_R")

_ROWS_AT_ONCE: Final = 25
"""How many rows are read at once."""


class RecordingSearch(Generic[_T]):
    """Searches ``recordings`` in their order. ``opened`` opens one for as long as it is searched.

    ``clock`` returns seconds. ``place`` is the index of the recording that is being searched, or from which
    to continue; at the end it is the number of recordings. ``faults`` has a text for each recording that
    could not be read completely.
    """

    def __init__(
        self,
        recordings: Sequence[_T],
        opened: "Callable[[_T], AbstractContextManager[View]]",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._recordings: Final = recordings
        self._opened: Final = opened
        self._clock: Final = clock
        self.place = 0
        self.faults: Final[list[str]] = []

    def results(
        self, search: "Callable[[_T, View], Iterator[_R]]", place: int = 0, for_s: float = math.inf
    ) -> Iterator[_R]:
        """Yield the results of ``search`` in each recording from index ``place`` on.

        After ``for_s`` seconds no further recording is opened; at least one is. The search within a recording
        continues as long as the caller takes results.
        """
        until = self._clock() + for_s
        for index, recording in enumerate(self._recordings[place:], start=place):
            self.place = index
            if index > place and self._clock() >= until:
                return
            try:
                with self._opened(recording) as view:
                    yield from search(recording, view)
                    view.index.refuse_damage()
            except McpProxyError as fault:
                self.faults.append(str(fault))
        self.place = len(self._recordings)


def may_have_failed_calls(entry: RecordingEntry, wanted: Filter) -> bool:
    """Whether a recording may have rows that pass a filter, by the calls that were counted when it ended.

    The answer is no only if the filter asks for unsuccessful calls, and the recording has none. An HTTP
    exchange without a JSON-RPC request is not counted as a call, and may have failed as well.
    """
    if entry.running or entry.calls is None or entry.has_failed:
        return True
    positive_terms = [term for term in wanted.terms if not term.negated]
    has_calls_only = entry.transport == "stdio" or any(
        (term.key, term.values) == ("kind", ("request",)) for term in positive_terms
    )
    return not has_calls_only or not any(
        term.key == "status" and all(STATUS[str(word)] <= UNSUCCESSFUL for word in term.values)
        for term in positive_terms
    )


def calls_after(view: "View", wanted: Filter, last: int = 0) -> Iterator[Call]:
    """Yield the rows after the row ``last`` that pass a filter. They are read in small groups."""
    start = view.position(last + 1, wanted)
    while calls := view.calls(wanted, start, _ROWS_AT_ONCE):
        start += len(calls)
        yield from calls


def findings_of_sessions(view: "View", wanted: Filter) -> list[Finding]:
    """Return the findings that pass a filter and belong to no row, such as those about a whole session.

    There are none if the filter is empty or has a term that is not about findings.
    """
    if not wanted or any(term.key not in ("rule", "severity") for term in wanted.terms):
        return []
    of_sessions = (finding for finding, row in view.findings.with_rows() if not row)
    return [finding for finding in of_sessions if all(_term_holds(term, finding) for term in wanted.terms)]


def _term_holds(term: Term, finding: Finding) -> bool:
    return term.matches(finding.rule if term.key == "rule" else finding.severity) is not term.negated
