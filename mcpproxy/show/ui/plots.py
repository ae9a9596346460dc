"""The points and bars that the plots of the page draw."""

from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.read.view.call_members import milliseconds
from mcpproxy.read.view.diagrams.lanes import lanes_of
from mcpproxy.read.view.index.columns import FAILED, OUTCOMES, WITHOUT_ANSWER
from mcpproxy.read.view.view import View
from mcpproxy.show.ui import json_rows


def latencies(view: View, filter: str | None, limit: int) -> JSONObject:
    """Return the latencies of calls, and how long those without an answer waited.

    If there are more than ``limit``, successive calls form groups, and the slowest of each group is returned.
    """
    columns, now_ns = view.columns, view.index.now_ns()
    latency_ns, started_ns, outcome = columns.latency_ns, columns.started_ns, columns.outcome
    took_ns = {
        row: columns.waited_ns(row, now_ns)
        for row in view.numbers(filter)
        if latency_ns[row] >= 0 or outcome[row] in WITHOUT_ANSWER
    }
    rows = list(took_ns)
    total = len(rows)
    if total > limit:
        step = -(-total // limit)
        rows = [max(rows[start : start + step], key=took_ns.__getitem__) for start in range(0, total, step)]
    rows.sort(key=started_ns.__getitem__)
    return {
        "total": total,
        "unanswered": sum(outcome[row] in WITHOUT_ANSWER for row in took_ns),
        "row": list(rows),
        "at_ms": [milliseconds(started_ns[row]) for row in rows],
        "kind": [_kind_of(outcome[row]) for row in rows],
        "latency_ms": [milliseconds(took_ns[row]) for row in rows],
    }


def _kind_of(outcome: int) -> str:
    """Return the kind of an outcome, by which the page colours it.

    It is ``answered``, ``failed``, or without an answer the name of the outcome.
    """
    return "failed" if outcome in FAILED else OUTCOMES[outcome] if outcome in WITHOUT_ANSWER else "answered"


def spans(
    view: View, begin_ns: int, end_ns: int, narrow_ns: int, filter: str | None, limit: int
) -> JSONObject:
    """Return the rows that were open between two times as bars on lanes, see ``diagrams.lanes``.

    The other arguments are those of ``lanes_of``. A bar of one row has its ``call``.
    """
    timeline = lanes_of(view, begin_ns, end_ns, narrow_ns, filter, limit=limit)
    return {
        "total": timeline.total,
        "lanes": timeline.lanes,
        "left_out": timeline.left_out,
        "bars": [
            {
                "lane": bar.lane,
                "from_ms": milliseconds(bar.began_ns),
                "to_ms": milliseconds(bar.ended_ns),
                "count": bar.count,
                "errors": bar.errors,
                "call": json_rows.call(view.call(bar.row)) if bar.count == 1 else None,
            }
            for bar in timeline.bars
        ],
    }
