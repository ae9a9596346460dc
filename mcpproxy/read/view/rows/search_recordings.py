"""A search of many recordings, one after the other, that may stop when its time is up and go on later."""

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

_AT_ONCE: Final = 25


class RecordingSearch(Generic[_T]):
    """Searches ``recordings`` in their order. ``opened`` opens one for as long as it is searched.

    ``place`` is the index of the recording that is being searched, or from which the search has to go on; at
    the end, it is their number. ``faults`` says why some could not be read, or not whole, one text for each.
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
        self, found: "Callable[[_T, View], Iterator[_R]]", place: int = 0, for_s: float = math.inf
    ) -> Iterator[_R]:
        """Yield what ``found`` yields for each recording from index ``place`` on.

        After ``for_s`` seconds no further recording is opened; at least one is. Within a recording, the
        search runs as long as the results are taken.
        """
        until = self._clock() + for_s
        for index, recording in enumerate(self._recordings[place:], start=place):
            self.place = index
            if index > place and self._clock() >= until:
                return
            try:
                with self._opened(recording) as view:
                    yield from found(recording, view)
                    view.index.refuse_damage()
            except McpProxyError as fault:
                self.faults.append(str(fault))
        self.place = len(self._recordings)


def may_have_failed_calls(entry: RecordingEntry, wanted: Filter) -> bool:
    """Whether a recording may have what passes a filter, by the calls that were counted when it ended.

    Only where the filter asks for calls that were not successful, some recordings have none. An exchange over
    HTTP without a request of JSON-RPC is no call and is not counted, and may have failed, too.
    """
    if entry.running or entry.calls is None or entry.has_failed:
        return True
    asked = [term for term in wanted.terms if not term.negated]
    has_calls_only = entry.transport == "stdio" or any(
        (term.key, term.values) == ("kind", ("request",)) for term in asked
    )
    return not has_calls_only or not any(
        term.key == "status" and all(STATUS[str(each)] <= UNSUCCESSFUL for each in term.values)
        for term in asked
    )


def calls_after(view: "View", wanted: Filter, last: int = 0) -> Iterator[Call]:
    """Yield the rows after the row ``last`` that pass a filter. Few are read before they are taken."""
    start = view.position(last + 1, wanted)
    while calls := view.calls(wanted, start, _AT_ONCE):
        start += len(calls)
        yield from calls


def findings_of_sessions(view: "View", wanted: Filter) -> list[Finding]:
    """Return the findings about a whole session that pass a filter which asks for nothing but findings."""
    if not wanted or any(term.key not in ("rule", "severity") for term in wanted.terms):
        return []
    of_sessions = (finding for finding, row in view.findings.with_rows() if not row)
    return [each for each in of_sessions if all(_holds(term, each) for term in wanted.terms)]


def _holds(term: Term, finding: Finding) -> bool:
    return term.matches(finding.rule if term.key == "rule" else finding.severity) is not term.negated
