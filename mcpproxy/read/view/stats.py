"""Compute statistics: how often each tool and method was called, how long answers took, and their sizes.

A token is estimated as four bytes of JSON, which is roughly right for English text and JSON.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from mcpproxy.base.visible import visible
from mcpproxy.judge.session.filter import Filter
from mcpproxy.judge.session.outcomes import CallCounts, count_calls
from mcpproxy.read.view.index.columns import FROM_SERVER, OUTCOMES, REQUESTS, WITHOUT_ANSWER
from mcpproxy.read.view.view import View

BYTES_PER_TOKEN: Final = 4
ESTIMATE: Final = f"tokens are estimated: one for {BYTES_PER_TOKEN} bytes of JSON"


Order: TypeAlias = Literal["calls", "failed", "latency", "tokens"]
"""What comes first: the most calls, the most unsuccessful calls, the slowest, or the largest answers."""

ORDERS: Final[tuple[Order, ...]] = get_args(Order)


Latency: TypeAlias = Literal["p50", "p95", "max"]
"""The latencies that are told of a group of calls: the median, the 95th percentile and the longest."""


@dataclass(frozen=True, slots=True)
class CallStatistics:
    """The requests of one sender with one method and, if they name one, the same tool, prompt or resource.

    ``name`` is the tool, prompt or resource, or ``None``. ``p50_ns`` (the median), ``p95_ns`` and ``max_ns``
    are of the latencies; a request without an answer counts with the time that it waited, cancelled or not.
    ``at_least`` names those that are such a waiting time: an answer would have taken longer. The three are
    ``None`` if no request has a known latency or waiting time. ``bytes_in`` is the sum of the sizes of all
    requests, ``bytes_out`` that of all answers.
    """

    method: str
    name: str | None
    sender: str
    counts: CallCounts
    p50_ns: int | None
    p95_ns: int | None
    max_ns: int | None
    at_least: tuple[Latency, ...]
    bytes_in: int
    bytes_out: int

    @property
    def result_tokens(self) -> int:
        """The estimated tokens of all answers."""
        return tokens(self.bytes_out)


@dataclass(frozen=True, slots=True)
class ToolCost:
    """A tool that a server listed. ``definition_bytes`` is the size that a model must read to use it."""

    name: str
    server: str
    definition_bytes: int
    calls: int
    result_bytes: int
    """The sum of the sizes of the answers to its calls."""

    @property
    def definition_tokens(self) -> int:
        """The estimated tokens of its definition."""
        return tokens(self.definition_bytes)

    @property
    def result_tokens(self) -> int:
        """The estimated tokens of all its answers."""
        return tokens(self.result_bytes)


@dataclass(frozen=True, slots=True)
class Statistics:
    """The statistics of one or more recordings. ``duration_ns`` is the sum of their lengths.

    ``tools`` are the tools that servers listed. ``not_begun`` has a clause for each server that failed
    before any message.
    """

    recordings: int
    frames: int
    duration_ns: int
    calls: tuple[CallStatistics, ...]
    tools: tuple[ToolCost, ...]
    not_begun: tuple[str, ...] = ()

    @property
    def never_used(self) -> tuple[ToolCost, ...]:
        """The tools that were listed and never called."""
        return tuple(tool for tool in self.tools if not tool.calls)


class StatisticsBuilder:
    """Adds recordings to one ``Statistics``, one at a time."""

    def __init__(self) -> None:
        self._recordings = 0
        self._frames = 0
        self._duration_ns = 0
        self._groups: Final[dict[tuple[str, str | None, str], _Group]] = {}
        self._tools: Final[dict[tuple[str, str], ToolCost]] = {}
        """The names of a server and of its tool -> the cost of the tool."""
        self._not_begun: Final[list[str]] = []

    def add(self, view: View, filter: Filter | None = None) -> None:
        """Add a recording: all its tools, and the calls that pass the filter."""
        passing_rows = set(view.numbers(filter)) if filter else None
        self._recordings += 1
        self._frames += view.frames
        self._duration_ns += view.duration_ns
        if view.not_begun:
            self._not_begun.append(view.not_begun)
        columns = view.columns
        now_ns = view.index.now_ns()
        rows = zip(
            columns.kind, columns.name, columns.outcome, columns.latency_ns, columns.answer_line,
            columns.request_bytes, columns.answer_bytes, strict=True,
        )  # fmt: skip
        group_of_name: dict[tuple[int, int], _Group] = {}
        for row, (kind, name, outcome, latency_ns, answered, size_in, size_out) in enumerate(rows):
            if not row or kind not in REQUESTS:
                continue
            if passing_rows is not None and row not in passing_rows:
                continue
            group = group_of_name.get((kind, name))
            if group is None:
                method, target = view.index.reader.name(row)
                key = (method, target, "server" if kind & FROM_SERVER else "client")
                group = self._groups.setdefault(key, _Group())
                if name != columns.unnamed:  # ``unnamed`` stands for many pairs of method and target
                    group_of_name[kind, name] = group
            group.outcomes[outcome] += 1
            group.bytes_in += size_in
            group.bytes_out += size_out
            if answered:
                group.latencies.extend([latency_ns] if latency_ns >= 0 else ())
            elif (
                outcome in WITHOUT_ANSWER
                and not view.unread
                and (waited_ns := columns.waited_ns(row, now_ns))
            ):
                group.waits.append(waited_ns)
        result_bytes = _result_bytes(view)
        servers = {session.number: session.server for session in view.sessions}
        for tool in view.tools.all():
            if tool.listed:
                key = servers.get(tool.session, ""), tool.name
                earlier = self._tools.get(key)
                calls = tool.calls + (earlier.calls if earlier else 0)
                size = result_bytes[tool.session, tool.name] + (earlier.result_bytes if earlier else 0)
                self._tools[key] = ToolCost(tool.name, key[0], tool.size, calls, size)

    def result(self, order: Order = "calls") -> Statistics:
        """Return the statistics, sorted by ``order``; the most frequent calls come first among equals."""
        calls = [group.statistics(*key) for key, group in self._groups.items()]
        calls.sort(key=lambda row: (-row.counts.total, row.method, row.name or ""))
        calls.sort(key=_SORT_KEYS[order], reverse=True)  # a stable sort: equal ones keep their order
        return Statistics(
            self._recordings,
            self._frames,
            self._duration_ns,
            tuple(calls),
            tuple(self._tools.values()),
            tuple(self._not_begun),
        )


_SORT_KEYS: Final[Mapping[Order, Callable[[CallStatistics], tuple[int, ...]]]] = {
    "calls": lambda row: (row.counts.total,),
    "failed": lambda row: (sum(number for number, _ in row.counts.unsuccessful(running=False)),),
    "latency": lambda row: (row.p95_ns or 0, row.max_ns or 0),
    "tokens": lambda row: (row.bytes_out,),
}


def _result_bytes(view: View) -> Counter[tuple[int, str]]:
    """Return the total size of the answers for each session and tool."""
    names = enumerate(view.index.reader.names())
    tools = {number: visible(name) for number, (method, name) in names if method == "tools/call" and name}
    columns, sizes = view.columns, Counter[tuple[int, str]]()
    for number, session, size in zip(columns.name, columns.session, columns.answer_bytes, strict=True):
        if number in tools:
            sizes[session, tools[number]] += size
    return sizes


class _Group:
    """The requests of one method and target."""

    __slots__ = ("bytes_in", "bytes_out", "latencies", "outcomes", "waits")

    def __init__(self) -> None:
        self.outcomes: Final = [0] * len(OUTCOMES)
        self.latencies: Final = array("q")
        self.waits: Final = array("q")
        """How long the requests without an answer waited."""
        self.bytes_in = 0
        self.bytes_out = 0

    def statistics(self, method: str, name: str | None, sender: str) -> CallStatistics:
        ordered = sorted([*self.latencies, *self.waits])
        latencies: dict[Latency, int | None] = {
            "p50": percentile(ordered, 50), "p95": percentile(ordered, 95), "max": percentile(ordered, 100)
        }  # fmt: skip
        waits = set(self.waits)
        return CallStatistics(
            visible(method),
            None if name is None else visible(name),
            sender,
            counts=count_calls(dict(zip(OUTCOMES, self.outcomes, strict=True))),
            p50_ns=latencies["p50"],
            p95_ns=latencies["p95"],
            max_ns=latencies["max"],
            at_least=tuple(name for name, ns in latencies.items() if ns in waits),
            bytes_in=self.bytes_in,
            bytes_out=self.bytes_out,
        )


def statistics(views: Iterable[View]) -> Statistics:
    """Return the common statistics of several recordings."""
    builder = StatisticsBuilder()
    for view in views:
        builder.add(view)
    return builder.result()


def percentile(ordered: list[int], percent: int) -> int | None:
    """Return the smallest value that ``percent`` % of the values do not exceed; ``None`` without values.

    ``ordered`` are the values in rising order.
    """
    if not ordered:
        return None
    return ordered[max(-(-percent * len(ordered) // 100) - 1, 0)]


def tokens(size: int) -> int:
    """Return the estimated number of tokens of ``size`` bytes of JSON."""
    return -(-size // BYTES_PER_TOKEN)


def as_object(statistics: Statistics) -> Mapping[str, object]:
    """Return statistics as a JSON object."""
    return {
        "recordings": statistics.recordings,
        "frames": statistics.frames,
        "duration_ns": statistics.duration_ns,
        "not_begun": list(statistics.not_begun),
        "token_estimate": ESTIMATE,
        "calls": [
            {
                "method": calls.method,
                "name": calls.name,
                "from": calls.sender,
                "count": calls.counts.total,
                "failed": calls.counts.failed,
                "unanswered": calls.counts.unanswered,
                "cancelled": calls.counts.cancelled,
                "refused": calls.counts.refused,
                "unreadable": calls.counts.unreadable,
                "p50_ns": calls.p50_ns,
                "p95_ns": calls.p95_ns,
                "max_ns": calls.max_ns,
                "at_least": calls.at_least,
                "bytes_in": calls.bytes_in,
                "bytes_out": calls.bytes_out,
                "result_tokens": calls.result_tokens,
            }
            for calls in statistics.calls
        ],
        "tools": [
            {
                "name": tool.name,
                "server": tool.server,
                "definition_bytes": tool.definition_bytes,
                "definition_tokens": tool.definition_tokens,
                "calls": tool.calls,
                "result_tokens": tool.result_tokens,
            }
            for tool in statistics.tools
        ],
        "never_used": [tool.name for tool in statistics.never_used],
    }
