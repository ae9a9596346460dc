"""Lay out the rows of a recording (calls and other records) as bars in the lanes of a time line.

There is a second lane only if calls overlap in time. Successive bars in a lane that are too narrow to be
drawn one by one are merged into one bar with a count. ``ui/static/lanes.js`` does the same for an exported
page.
"""

from array import array
from typing import Final, TypeAlias

from mcpproxy.base.slotted import slotted
from mcpproxy.judge.session.outcomes import Outcome
from mcpproxy.read.view.index.columns import FAILED, OUTCOMES, REQUESTS, Columns
from mcpproxy.read.view.view import AnyFilter, View

Numbers: TypeAlias = "array[int]"

MOST_LANES: Final = 30
"""How many lanes there are at most. Calls without a lane are only counted."""

MESSAGES: Final = -1
"""The lane of rows that are no requests."""

_STRETCH: Final = 20
"""A stretch of time is this many times as long as the shortest bar that is not narrow. Bars are merged only
within a stretch, so that the diagram shows where calls are dense."""

_FINEST: Final = 20_000
"""The time is divided into at most this many parts. A bar shorter than a part is always narrow."""

_UNANSWERED: Final = OUTCOMES.index(Outcome.UNANSWERED)


@slotted()
class TimeBar:
    """A row, or ``count`` narrow rows of one lane that begin with ``row``.

    Times are nanoseconds since the start of the recording. ``lane`` counts from 0, or is ``MESSAGES``.
    ``errors`` counts the rows that failed.
    """

    lane: int
    began_ns: int
    ended_ns: int
    row: int
    count: int
    errors: int


@slotted(frozen=True)
class TimeLanes:
    """Bars in the order of their lanes and times.

    ``total`` counts the rows that were open between the two times. ``lanes`` is the number of lanes of calls,
    at most ``MOST_LANES``, and ``left_out`` the number of calls for which no lane was free.
    """

    bars: list[TimeBar]
    lanes: int
    total: int
    left_out: int


def lanes_of(
    view: View, begin_ns: int, end_ns: int, narrow_ns: int, filter: AnyFilter = None, *, limit: int
) -> TimeLanes:
    """Return the rows that pass a filter and were open between two times.

    Bars shorter than ``narrow_ns`` are merged. If more than ``limit`` bars remain, longer ones are, too.
    """
    columns, last_ns = view.columns, view.index.now_ns()
    started_ns, latency_ns, outcome = columns.started_ns, columns.latency_ns, columns.outcome
    rows: array[int] = array("I")
    ended_ns: array[int] = array("q")
    for row in sorted(view.numbers(filter), key=started_ns.__getitem__):
        began_ns = started_ns[row]
        if began_ns > end_ns:
            break
        if (length_ns := latency_ns[row]) < 0:
            length_ns = max(0, last_ns - began_ns) if outcome[row] == _UNANSWERED else 0
        if began_ns + length_ns >= begin_ns:
            rows.append(row)
            ended_ns.append(began_ns + length_ns)
    lane_of, lanes, left_out = _place_rows(columns, rows, ended_ns)
    finest_ns = (min(end_ns, last_ns) - max(begin_ns, 0)) // _FINEST
    narrow_ns = max(narrow_ns, finest_ns, 1)
    while len(bars := _merge_rows(columns, rows, ended_ns, lane_of, narrow_ns)) > limit:
        narrow_ns *= 2
    bars.sort(key=lambda bar: (bar.lane, bar.began_ns))
    return TimeLanes(bars, lanes, len(rows), left_out)


def _place_rows(columns: Columns, rows: Numbers, ended_ns: Numbers) -> tuple[Numbers, int, int]:
    """Return the first free lane for each row, the number of lanes, and that of calls without a lane.

    Rows that are no requests are in the lane ``MESSAGES``; calls without a lane have the number
    ``MOST_LANES``.
    """
    free_ns: list[int] = []  # from when on each lane is free
    lane_of: Numbers = array("b")
    for row, end_ns in zip(rows, ended_ns, strict=True):
        lane = MESSAGES
        if columns.kind[row] in REQUESTS:
            began_ns = columns.started_ns[row]
            lane = next((lane for lane, at_ns in enumerate(free_ns) if at_ns <= began_ns), len(free_ns))
            if lane == len(free_ns) < MOST_LANES:
                free_ns.append(end_ns)
            elif lane < MOST_LANES:
                free_ns[lane] = end_ns
        lane_of.append(lane)
    return lane_of, len(free_ns), lane_of.count(MOST_LANES)


def _merge_rows(
    columns: Columns, rows: Numbers, ended_ns: Numbers, lane_of: Numbers, narrow_ns: int
) -> list[TimeBar]:
    """Return the rows that have a lane as bars.

    Successive ones in a lane that are shorter than ``narrow_ns`` and less than that apart are merged if they
    begin in the same stretch of time.
    """
    bars: list[TimeBar] = []
    last: dict[int, TimeBar] = {}  # the bar of each lane to which a narrow row may be added
    stretch_ns = narrow_ns * _STRETCH
    for row, end_ns, lane in zip(rows, ended_ns, lane_of, strict=True):
        if lane == MOST_LANES:
            continue
        began_ns = columns.started_ns[row]
        errors = 1 if columns.outcome[row] in FAILED else 0
        bar = last.pop(lane, None)
        is_narrow = end_ns - began_ns < narrow_ns
        if (
            bar
            and is_narrow
            and began_ns - bar.ended_ns < narrow_ns
            and began_ns // stretch_ns == bar.began_ns // stretch_ns
        ):
            bar.ended_ns = max(bar.ended_ns, end_ns)
            bar.count += 1
            bar.errors += errors
        else:
            bar = TimeBar(lane, began_ns, end_ns, row, 1, errors)
            bars.append(bar)
        if is_narrow:
            last[lane] = bar
    return bars
