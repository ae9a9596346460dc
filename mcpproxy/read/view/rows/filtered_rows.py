"""Keep the rows that pass the latest filters, and the rows in the latest orders.

A row is a request with its answer, or another record.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.session.filter import Filter
from mcpproxy.read.view.calls import Progress

if TYPE_CHECKING:
    from mcpproxy.read.view.index.indexed_trace import IndexedTrace
    from mcpproxy.read.view.recorded_findings import RecordedFindings
    from mcpproxy.read.view.rows.select_rows import Rows

_KEPT_FILTERS: Final = 8
_KEPT_ORDERS: Final = 2
"""How many filters, and how many orders, are kept with their rows."""


@slotted()
class _Selection:
    """The rows that pass a filter.

    The rows from ``stale_from`` on must be selected again; it is 0 if all are up to date.
    """

    rows: "Rows" = field(default_factory=lambda: array("I"))
    stale_from: int = 1


class FilteredRows:
    """The rows of a recording that pass the latest filters, and rows in the latest orders."""

    def __init__(self, index: "IndexedTrace", findings: "RecordedFindings") -> None:
        self._index: Final = index
        self._findings: Final = findings
        self._selected: dict[Filter, _Selection] = {}
        self._sorted: dict[tuple[Filter | None, str], Rows] = {}

    def find(self, wanted: Filter | None, order: str = "") -> Iterator[Progress]:
        """Apply a filter and then an order, step by step; yield the progress.

        Raises:
            ValueError: rows cannot be sorted by ``order``.
        """
        if wanted:
            yield from self._apply_filter(wanted)
        if order and (wanted, order) not in self._sorted:
            from mcpproxy.read.view.rows.sort_rows import (  # imported here: few users sort
                check_order,
                sort_rows,
            )

            rows = self._selected[wanted].rows if wanted else range(1, self._index.columns.rows + 1)
            in_order = yield from sort_rows(self._index, rows, check_order(order))
            while len(self._sorted) >= _KEPT_ORDERS:
                del self._sorted[next(iter(self._sorted))]
            self._sorted[wanted, order] = in_order

    def _apply_filter(self, wanted: Filter) -> Iterator[Progress]:
        selection = self._selected.get(wanted) or _Selection()
        if not selection.stale_from:
            return
        from mcpproxy.read.view.rows.select_rows import select  # imported here: few users filter

        rows = selection.rows[: bisect_left(selection.rows, selection.stale_from)]
        rows += yield from select(self._index, self._findings, wanted, selection.stale_from)
        while len(self._selected) >= _KEPT_FILTERS:
            del self._selected[next(iter(self._selected))]
        self._selected[wanted] = _Selection(rows, 0)

    def rows(self, wanted: Filter | None, order: str = "") -> "Rows | None":
        """Return the rows that pass a filter, in an order; ``None`` for all rows as they were recorded.

        Raises:
            ValueError: rows cannot be sorted by ``order``.
        """
        for _ in self.find(wanted, order):
            pass
        if order:
            return self._sorted[wanted, order]
        return self._selected[wanted].rows if wanted else None

    def mark_stale(self, first: int) -> None:
        """Note that rows from ``first`` on are new or have changed; 0 if none are."""
        if first:
            self._sorted.clear()
        for wanted, selection in self._selected.items():
            # The latency of an open request grows without a new record, so all rows are tested again.
            waits = any(term.key == "latency" for term in wanted.terms)
            stale_from = 1 if waits else first
            if stale_from:
                selection.stale_from = min(selection.stale_from or stale_from, stale_from)
