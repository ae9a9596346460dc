"""Tools that count: calls, latencies, and the tokens of tools in a context."""

from typing import Final

from mcpproxy.agents import cursors
from mcpproxy.agents.answer_types import CostPage, CostRow, StatisticsPage, StatisticsRow
from mcpproxy.agents.pages import AnswerPage
from mcpproxy.agents.recording_library import RecordingLibrary
from mcpproxy.agents.tool_arguments import Cursor, FilterText, Handle
from mcpproxy.session.filter import parse_filter
from mcpproxy.view.call_members import milliseconds
from mcpproxy.view.stats import ESTIMATE, CallStatistics, StatisticsBuilder, ToolCost, statistics

_MAX_ROWS: Final = 100


class FigureTools:
    """Tools that count in the recordings of ``library``."""

    def __init__(self, library: RecordingLibrary) -> None:
        self._library: Final = library

    def get_statistics(
        self, recording: Handle = "", filter: FilterText = "", cursor: Cursor = ""
    ) -> StatisticsPage:
        """Count the calls of each method and tool that pass a filter: how many failed, latencies, bytes."""
        opened = self._library.opened(self._library.find(recording))
        wanted = parse_filter(filter)
        question = ("get_statistics", opened.handle, wanted.text)
        start, _ = cursors.read(question, cursor)
        builder = StatisticsBuilder()
        builder.add(opened.view, wanted)
        found = builder.result()
        rows, has_more = AnswerPage(_MAX_ROWS).fill(map(self._statistics_row, found.calls[start:]))
        next = cursors.write(question, start + len(rows)) if has_more else ""
        return StatisticsPage(found.frames, milliseconds(found.duration_ns), rows, next)

    def _statistics_row(self, calls: CallStatistics) -> StatisticsRow:
        return StatisticsRow(
            method=self._library.shown(calls.method),
            sender=calls.sender,
            count=calls.count,
            name=self._library.shown(calls.name or ""),
            failed=calls.failed,
            unanswered=calls.unanswered,
            p50_ms=milliseconds(calls.p50_ns),
            p95_ms=milliseconds(calls.p95_ns),
            max_ms=milliseconds(calls.max_ns),
            bytes_in=calls.bytes_in,
            bytes_out=calls.bytes_out,
        )

    def get_context_cost(self, recording: Handle = "", cursor: Cursor = "") -> CostPage:
        """Estimate how many tokens the definitions and the results of tools take in a model's context."""
        opened = self._library.opened(self._library.find(recording))
        question = ("get_context_cost", opened.handle)
        start, _ = cursors.read(question, cursor)
        found = statistics([opened.view])
        results = {
            calls.name or "": calls.result_tokens for calls in found.calls if calls.method == "tools/call"
        }
        tools = sorted(found.tools, key=lambda tool: -tool.definition_bytes)
        rows, has_more = AnswerPage(_MAX_ROWS).fill(self._cost_row(tool, results) for tool in tools[start:])
        return CostPage(
            definition_tokens=sum(tool.definition_tokens for tool in tools),
            unused_tokens=sum(tool.definition_tokens for tool in found.never_used),
            result_tokens=sum(results.values()),
            estimate=ESTIMATE,
            tools=rows,
            next=cursors.write(question, start + len(rows)) if has_more else "",
        )

    def _cost_row(self, tool: ToolCost, results: dict[str, int]) -> CostRow:
        return CostRow(
            tool=self._library.shown(tool.name),
            calls=tool.calls,
            definition_tokens=tool.definition_tokens,
            server=self._library.shown(tool.server),
            result_tokens=results.get(tool.name, 0),
        )
