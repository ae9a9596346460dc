"""Tools that count: calls, latencies, and the tokens of tools in a context."""

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Final

from mcpproxy.judge.session.filter import Filter, parse_filter
from mcpproxy.read.view.call_members import milliseconds
from mcpproxy.read.view.rows.search_recordings import RecordingSearch
from mcpproxy.read.view.stats import ESTIMATE, CallStatistics, Order, Statistics, StatisticsBuilder, ToolCost
from mcpproxy.read.view.view import View
from mcpproxy.show.agents import cursors
from mcpproxy.show.agents.answer_types import CostPage, CostRow, StatisticsPage, StatisticsRow
from mcpproxy.show.agents.errors import AgentError
from mcpproxy.show.agents.pages import AnswerPage
from mcpproxy.show.agents.recording_library import ListedRecording, RecordingLibrary
from mcpproxy.show.agents.tool_arguments import Cursor, FilterTextAgain, Handle, MatchTogether, SortedBy

_MAX_ROWS: Final = 100
"""How many rows a page of an answer has at most."""

_COUNT_S: Final = 10.0
"""After this time, no further recording is counted for an answer."""


class FigureTools:
    """Tools that count in the recordings of ``library``. ``clock`` returns seconds."""

    def __init__(self, library: RecordingLibrary, clock: Callable[[], float] = time.monotonic) -> None:
        self._library: Final = library
        self._clock: Final = clock

    def get_statistics(
        self,
        recording: Handle = "",
        match: MatchTogether = "",
        filter: FilterTextAgain = "",
        sort: SortedBy = "calls",
        cursor: Cursor = "",
    ) -> StatisticsPage:
        """Count the calls of each method and tool that pass a filter: how many failed, latencies, bytes."""
        wanted = parse_filter(filter)
        statistics, counted, note = self._collect_statistics(recording, match, wanted, sort)
        question = ("get_statistics", counted, wanted.text, sort)
        start, _ = cursors.read(question, cursor)
        rows, has_more = AnswerPage(_MAX_ROWS, note).fill(map(self._statistics_row, statistics.calls[start:]))
        next = cursors.write(question, start + len(rows)) if has_more else ""
        duration_ms = milliseconds(statistics.duration_ns)
        return StatisticsPage(statistics.frames, duration_ms, rows, statistics.recordings, note, next)

    def _collect_statistics(
        self, recording: str, match: str, wanted: Filter | None = None, order: Order = "calls"
    ) -> tuple[Statistics, str, str]:
        """Return the statistics of a recording, or of all that ``match`` finds.

        The second value names what was counted, for cursors; the third is a note on what was not.

        Raises:
            AgentError: no recording matches, several have this part of a handle, a file of it is a link, or
                both ``recording`` and ``match`` are given.
            TraceError: the recording that ``recording`` names cannot be read.
        """
        builder = StatisticsBuilder()
        if not match:
            opened = self._library.opened(self._library.find(recording))
            builder.add(opened.view, wanted)
            note = self._library.note_on_latest(recording, opened.listed, "match=* counts all")
            failed = self._library.failed_start(opened.listed) if opened.listed.entry.has_not_begun else ""
            return builder.result(order), opened.handle, "; ".join(filter(None, (failed, note)))
        if recording:
            raise AgentError("recording and match are two ways to say what is counted; leave one out")
        listed = self._library.matching(match)
        if not listed:
            raise AgentError(f"no recording has {self._library.shown(match)!r}; list_recordings has all")

        def add(recorded: ListedRecording, view: View) -> Iterator[ListedRecording]:
            builder.add(view, wanted)
            yield recorded

        search = RecordingSearch(
            listed, lambda recorded: nullcontext(self._library.opened(recorded).view), self._clock
        )
        for _ in search.results(add, for_s=_COUNT_S):
            pass
        notes = [f"{len(search.faults)} could not be read whole"] if search.faults else []
        failed = [recorded for recorded in listed[: search.place] if recorded.entry.has_not_begun]
        notes += [f"{len(failed)} of them failed before any message"] if len(failed) > 1 else []
        notes += [self._library.failed_start(failed[0])] if len(failed) == 1 else []
        if search.place < len(listed):
            notes.append(f"only the latest {search.place} of {len(listed)} were counted")
        return builder.result(order), f"all {match}", ", ".join(notes)

    def _statistics_row(self, calls: CallStatistics) -> StatisticsRow:
        return StatisticsRow(
            method=self._library.shown(calls.method),
            sender=calls.sender,
            count=calls.counts.total,
            name=self._library.shown(calls.name or ""),
            failed=calls.counts.failed,
            unanswered=calls.counts.unanswered,
            cancelled=calls.counts.cancelled,
            refused=calls.counts.refused,
            unreadable=calls.counts.unreadable,
            p50_ms=milliseconds(calls.p50_ns),
            p95_ms=milliseconds(calls.p95_ns),
            max_ms=milliseconds(calls.max_ns),
            at_least=list(calls.at_least),
            bytes_in=calls.bytes_in,
            bytes_out=calls.bytes_out,
        )

    def get_context_cost(
        self, recording: Handle = "", match: MatchTogether = "", cursor: Cursor = ""
    ) -> CostPage:
        """Estimate how many tokens the definitions and the results of tools take in a model's context."""
        statistics, counted, note = self._collect_statistics(recording, match)
        question = ("get_context_cost", counted)
        start, _ = cursors.read(question, cursor)
        tools = sorted(statistics.tools, key=lambda tool: -tool.definition_bytes)
        rows, has_more = AnswerPage(_MAX_ROWS, note).fill(map(self._cost_row, tools[start:]))
        return CostPage(
            definition_tokens=sum(tool.definition_tokens for tool in tools),
            unused_tokens=sum(tool.definition_tokens for tool in statistics.never_used),
            result_tokens=sum(tool.result_tokens for tool in tools),
            estimate=ESTIMATE,
            tools=rows,
            recordings=statistics.recordings,
            note=note,
            next=cursors.write(question, start + len(rows)) if has_more else "",
        )

    def _cost_row(self, tool: ToolCost) -> CostRow:
        return CostRow(
            tool=self._library.shown(tool.name),
            calls=tool.calls,
            definition_tokens=tool.definition_tokens,
            server=self._library.shown(tool.server),
            result_tokens=tool.result_tokens,
        )
