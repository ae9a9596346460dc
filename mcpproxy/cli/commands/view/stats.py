"""``mcpproxy stats``: how often each tool and method was called, how long it took, and what it cost."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from mcpproxy.base.style import Style, count, duration, size
from mcpproxy.cli import find_traces
from mcpproxy.cli.arguments import Parser
from mcpproxy.cli.terminal import emit, tell, terminal_style
from mcpproxy.errors import TraceError
from mcpproxy.judge.session.filter import parse_filter
from mcpproxy.judge.session.outcomes import CallCounts
from mcpproxy.read.reports.text_table import fitted, table
from mcpproxy.read.view import stats
from mcpproxy.read.view.stats import CallStatistics, Latency, Statistics, StatisticsBuilder
from mcpproxy.read.view.view import open_view

EPILOG = f"""\
FAILED are the calls that ended with an error, UNANSWERED those without an answer, CANCELLED those that were
given up, REFUSED those that mcpproxy kept from the server, and UNREADABLE those whose answer could not be
decoded, or was not recorded. 95 of 100 calls took no longer than P95. P50, P95
and MAX count a call without an answer with the time that it waited, until it was cancelled or the recording
ended: >12.0 s is such a time. IN and OUT are the sizes of all requests and of all answers.
{stats.ESTIMATE[0].upper()}{stats.ESTIMATE[1:]}. A definition costs its tokens
each time that a model is given it.

  mcpproxy stats                    the latest recording
  mcpproxy stats --sort latency     the slowest first
  mcpproxy stats --label files      all recordings with this label, together
  mcpproxy stats recordings/        all recordings in a folder, together
  mcpproxy stats --json | jq .      the same as one JSON object"""

_LEFT_OUT_COLUMNS: Final = ("TOKENS", "P95", "IN", "MAX", "OUT", "REFUSED", "UNREADABLE", "CANCELLED")
"""The columns that are left out on a narrow terminal, in this order."""


def run(argv: list[str]) -> int:
    """Print the statistics of recordings, all together; return 2 if one of several could not be read.

    Raises:
        McpProxyError: the arguments are not valid, or the only recording cannot be read.
    """
    parser = Parser("stats", "Count calls per tool and method, with latencies and sizes.", EPILOG)
    parser.add_argument(
        "trace", nargs="*", metavar="TRACE|DIR", help="recordings or folders; without them the latest one"
    )
    parser.add_argument(
        "--label", action="append", default=[], metavar="LABEL", help="all recordings with this label"
    )
    parser.add_argument(
        "--sort",
        choices=stats.ORDERS,
        default="calls",
        help="what is first: the most calls, calls without a result, latency (P95) or tokens "
        "(default: calls)",
    )
    parser.add_argument(
        "--filter", default="", metavar="EXPR", help="count only calls that pass, such as tool:search*"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    options = parser.parse_args(argv)
    wanted = parse_filter(options.filter)
    labelled = [path for label in options.label for path in find_traces.with_label(label)]
    named = find_traces.every(options.trace) if options.trace or not labelled else []
    files = list(dict.fromkeys([*named, *labelled]))
    builder, code = StatisticsBuilder(), 0
    for path in files:
        try:
            with open_view(path) as view:
                builder.add(view, wanted)
                for note in view.notes:
                    tell(f"{path}: incomplete: {note}")
        except TraceError as fault:
            if len(files) == 1:
                raise
            tell(str(fault))
            code = 2
    statistics = builder.result(options.sort)
    if options.json:
        emit([json.dumps(stats.as_object(statistics), indent=2)])
    else:
        emit(lines(statistics, terminal_style()))
    return code


def lines(statistics: Statistics, style: Style) -> Iterator[str]:
    """Yield the statistics as tables."""
    total = sum(row.counts.total for row in statistics.calls)
    recordings, frames = count(statistics.recordings, "recording"), count(statistics.frames, "frame")
    yield f"{recordings}, {frames}, {count(total, 'call')}"
    for how, times in Counter(statistics.not_begun).items():
        yield style.paint(f"{how} ({times} times)" if times > 1 else how, "red")
    if statistics.calls:
        yield ""
        states = _count_columns(statistics)
        heading = ("CALLS", *states, "P50", "P95", "MAX", "IN", "OUT", "TOKENS", "CALL")
        rows = [heading, *(_row(calls, states) for calls in statistics.calls)]
        rows = fitted(rows, style, cut=("CALL",), left_out=_LEFT_OUT_COLUMNS, least=24)
        yield from table(rows, style, right=range(len(rows[0]) - 1), paint=_painter(style, len(states)))
        if any(calls.at_least for calls in statistics.calls):
            yield "> is before the time that a call without an answer waited"
    if statistics.tools:
        yield ""
        tools = sorted(statistics.tools, key=lambda tool: -tool.definition_bytes)
        rows = [("CALLS", "TOKENS", "DEFINITION")]
        rows += [(f"{tool.calls:,}", f"{tool.definition_tokens:,}", tool.name) for tool in tools]
        yield from table(fitted(rows, style, cut=("DEFINITION",)), style, right=range(2))
        unused = statistics.never_used
        cost = sum(tool.definition_tokens for tool in tools)
        wasted = sum(tool.definition_tokens for tool in unused)
        yield ""
        yield f"definitions: {cost:,} tokens"
        yield f"{len(unused)} of {count(len(tools), 'tool')} never used: {wasted:,} tokens"
    yield stats.ESTIMATE


def _count_columns(statistics: Statistics) -> dict[str, Callable[[CallCounts], int]]:
    """Return the heading of each column that counts calls -> the function that returns its count.

    Rare columns are left out if all their counts are 0.
    """
    rare: dict[str, Callable[[CallCounts], int]] = {
        "CANCELLED": lambda counts: counts.cancelled,
        "REFUSED": lambda counts: counts.refused,
        "UNREADABLE": lambda counts: counts.unreadable,
    }
    row_counts = [calls.counts for calls in statistics.calls]
    return {
        "FAILED": lambda counts: counts.failed,
        "UNANSWERED": lambda counts: counts.unanswered,
        **{name: number for name, number in rare.items() if any(map(number, row_counts))},
    }


def _row(calls: CallStatistics, states: Mapping[str, Callable[[CallCounts], int]]) -> tuple[str, ...]:
    latencies: dict[Latency, int | None] = {"p50": calls.p50_ns, "p95": calls.p95_ns, "max": calls.max_ns}
    name = " ".join(filter(None, ("server:" if calls.sender == "server" else "", calls.method, calls.name)))
    return (
        f"{calls.counts.total:,}",
        *(f"{number(calls.counts):,}" for number in states.values()),
        *(
            "-" if ns is None else f"{'>' if name in calls.at_least else ''}{duration(ns)}"
            for name, ns in latencies.items()
        ),
        size(calls.bytes_in),
        size(calls.bytes_out),
        f"{calls.result_tokens:,}",
        name,
    )


def _painter(style: Style, states: int) -> Callable[[int, str, str], str]:
    """Return a function that colours the counts in the ``states`` columns after the first, unless 0."""

    def paint(column: int, cell: str, padded: str) -> str:
        return style.paint(padded, "red") if 1 <= column <= states and cell != "0" else padded

    return paint
