"""The rows that pass a filter, kept for the filters that were used last."""

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.session.filter import Filter
from mcpproxy.view.calls import Progress

if TYPE_CHECKING:
    from mcpproxy.view.index.indexed_trace import IndexedTrace
    from mcpproxy.view.recorded_findings import RecordedFindings
    from mcpproxy.view.rows.select_rows import Rows

_KEPT_FILTERS: Final = 8


@slotted()
class _Selection:
    """The rows that pass a filter.

    Those from row ``stale_from`` on have to be selected again; it is 0 if all are up to date.
    """

    rows: "Rows" = field(default_factory=lambda: array("I"))
    stale_from: int = 1


class FilteredRows:
    """The rows of a recording that pass each of a few filters."""

    def __init__(self, index: "IndexedTrace", findings: "RecordedFindings") -> None:
        self._index: Final = index
        self._findings: Final = findings
        self._selected: dict[Filter, _Selection] = {}

    def find(self, wanted: Filter) -> Iterator[Progress]:
        """Apply a filter step by step, and yield how much was searched."""
        selection = self._selected.get(wanted) or _Selection()
        if not selection.stale_from:
            return
        from mcpproxy.view.rows.select_rows import select  # imported here: few users filter

        rows = selection.rows[: bisect_left(selection.rows, selection.stale_from)]
        rows += yield from select(self._index, self._findings, wanted, selection.stale_from)
        while len(self._selected) >= _KEPT_FILTERS:
            del self._selected[next(iter(self._selected))]
        self._selected[wanted] = _Selection(rows, 0)

    def rows(self, wanted: Filter) -> "Rows":
        """Return the rows that pass a filter."""
        for _ in self.find(wanted):
            pass
        return self._selected[wanted].rows

    def mark_stale(self, first: int) -> None:
        """Note that rows from ``first`` on are new or have changed; 0 if none are."""
        for wanted, selection in self._selected.items():
            # The latency of an open request grows without a new record, so all rows are tested again.
            waits = any(term.key == "latency" for term in wanted.terms)
            stale_from = 1 if waits else first
            if stale_from:
                selection.stale_from = min(selection.stale_from or stale_from, stale_from)
