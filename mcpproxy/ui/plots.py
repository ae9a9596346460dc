"""The points and spans that the plots of the page draw: of too many calls, only slow ones."""

from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.session.outcomes import Outcome
from mcpproxy.ui import json_rows
from mcpproxy.view.call_members import milliseconds
from mcpproxy.view.index.columns import OUTCOMES
from mcpproxy.view.view import View


def latencies(view: View, filter: str | None, limit: int) -> JSONObject:
    """Return the latencies of calls that were answered or cancelled.

    If there are more than ``limit``, successive calls form groups, and the slowest of each group is returned.
    """
    columns = view.columns
    latency_ns, started_ns = columns.latency_ns, columns.started_ns
    rows = [row for row in view.numbers(filter) if latency_ns[row] >= 0]
    total = len(rows)
    if total > limit:
        step = -(-total // limit)
        rows = [
            max(rows[start : start + step], key=latency_ns.__getitem__) for start in range(0, total, step)
        ]
    rows.sort(key=started_ns.__getitem__)
    return {
        "total": total,
        "row": list(rows),
        "at_ms": [milliseconds(started_ns[row]) for row in rows],
        "latency_ms": [milliseconds(latency_ns[row]) for row in rows],
    }


def spans(view: View, begin_ns: int, end_ns: int, filter: str | None, limit: int) -> JSONObject:
    """Return the calls that were open between two times; if there are more than ``limit``, the longest."""
    columns = view.columns
    latency_ns, started_ns = columns.latency_ns, columns.started_ns
    last_ns, no_answer = view.index.now_ns(), OUTCOMES.index(Outcome.NO_ANSWER)

    def ended_ns(row: int) -> int:
        if latency_ns[row] >= 0:
            return started_ns[row] + latency_ns[row]
        return last_ns if columns.outcome[row] == no_answer else started_ns[row]

    rows = [row for row in view.numbers(filter) if started_ns[row] <= end_ns and ended_ns(row) >= begin_ns]
    total = len(rows)
    if total > limit:
        rows.sort(key=lambda row: started_ns[row] - ended_ns(row))
        rows = sorted(rows[:limit])
    rows.sort(key=started_ns.__getitem__)
    return {"total": total, "rows": [json_rows.call(view.call(row)) for row in rows]}
