"""The three panes: the recordings, the calls of the open recording, and the detail."""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime

from textual.geometry import Size

from mcpproxy.read.view.calls import Call
from mcpproxy.show.tui.call_lines import call_line
from mcpproxy.show.tui.call_rows import CallRows
from mcpproxy.show.tui.line_panes import CursorPane, LinePane
from mcpproxy.show.tui.session_lines import SessionItem, session_line
from mcpproxy.show.tui.spans import Line, Span, wrapped

MOST_LINES = 20_000
"""The greatest number of lines in the detail, before the one that says that there are more."""


class SessionPane(CursorPane):
    """The recordings of a folder, and the sessions of the open recording."""

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.items: list[SessionItem] = []

    @property
    def total(self) -> int:
        """The number of items."""
        return len(self.items)

    def line(self, index: int, width: int) -> Line:
        """Return an item in ``width`` columns."""
        return session_line(self.items[index], width, f"{datetime.now(UTC):%Y-%m-%d}")

    @property
    def chosen(self) -> SessionItem | None:
        """The item under the cursor; ``None`` if there are no items."""
        return self.items[self.cursor] if self.cursor < len(self.items) else None

    def show(self, items: list[SessionItem]) -> None:
        """Show other items. The cursor stays on its recording or session, or goes to the first item."""
        before = self.chosen
        if items != self.items:
            self.items = items
            if before is not None:
                self.go_to(
                    self.index_of(before.entry.path, before.session and before.session.number), tell=False
                )
            self.lay_out()  # the number of items may have changed

    def index_of(self, path: str, session: int | None = None) -> int:
        """Return the index of a recording, or of one session of it; 0 if it is not in the list."""
        for index, item in enumerate(self.items):
            if item.entry.path == path and (item.session and item.session.number) == session:
                return index
        return 0


class CallPane(CursorPane):
    """The calls that pass the filter. ``rows`` is ``None`` while no recording is open."""

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.rows: CallRows | None = None
        self.total_rows = 0
        """How many rows pass the filter."""
        self._unfiltered_rows = 0
        self.message = ""
        """The text that says why there are no calls."""

    @property
    def total(self) -> int:
        """The number of calls at the last ``show`` or ``show_changes``."""
        return self.total_rows

    @property
    def digits(self) -> int:
        """How many digits the largest number of a call has; at least 3."""
        return max(len(str(self._unfiltered_rows)), 3)

    def line(self, index: int, width: int) -> Line:
        """Return a call in ``width`` columns."""
        assert self.rows is not None
        call = self.rows.call(index)
        return call_line(call, width, digits=self.digits, waited_ns=self.rows.waited_ns(call))

    @property
    def chosen(self) -> Call | None:
        """The call under the cursor; ``None`` if there are no calls."""
        return self.rows.call(self.cursor) if self.rows and self.cursor < self.total else None

    def show(self, rows: CallRows | None, number: int = 0) -> None:
        """Show these rows, with the cursor on the call ``number``, or on the next call in the list."""
        self.rows = rows
        self._count_rows()
        self.lay_out()
        self.go_to(rows.place(number) if rows and number else 0, tell=False)

    def show_changes(self, first: int, *, follow: bool) -> None:
        """Show the rows from the number ``first`` on, which are new or have changed; 0 means all rows.

        With ``follow`` the cursor goes to the last row, else it stays on its call.
        """
        assert self.rows is not None
        chosen = self.rows.call(self.cursor).number if self.cursor < min(self.total, self.rows.count) else 0
        digits = self.digits
        self._count_rows()
        bottom = self.scroll_offset.y + self.size.height
        if first and not self.rows.is_filtered and self.digits == digits and first > bottom:
            self.virtual_size = Size(0, self.total)  # nothing that is visible has changed
        else:
            self.lay_out()
        if follow:
            self.go_to(self.total - 1)
        elif chosen:
            self.go_to(self.rows.place(chosen), tell=False)

    def _count_rows(self) -> None:
        """Take the numbers of rows from the recording as it is now."""
        self.total_rows = self.rows.count if self.rows else 0
        self._unfiltered_rows = self.rows.view.count() if self.rows else 0

    def draw_waiting(self) -> None:
        """Draw the visible open calls again, because their timers have advanced."""
        if self.rows is None:
            return
        top = self.scroll_offset.y
        for index in range(top, min(top + self.size.height, self.total)):
            if self.rows.waited_ns(self.rows.call(index)) is not None:
                self.refresh_line(index)


class DetailPane(LinePane):
    """The detail of the chosen call, or the overview of the chosen recording."""

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._make_lines: Callable[[int], Iterable[Line]] = lambda _: ()
        self._lines: list[Line] = []

    @property
    def total(self) -> int:
        """The number of lines."""
        return len(self._lines)

    def line(self, index: int, width: int) -> Line:
        """Return a line. ``lay_out`` has made all lines for the width of the pane."""
        del width
        return self._lines[index]

    def show(self, make: Callable[[int], Iterable[Line]], *, stay: bool = False) -> None:
        """Show the lines that ``make(width)`` returns. Unless ``stay``, scroll to the first."""
        self._make_lines = make
        self.lay_out()
        if not stay:
            self.scroll_to(y=0, animate=False)

    def lay_out(self) -> None:
        """Make the lines again: for other contents, or another width of the pane."""
        width = max(self.columns, 20)
        self._lines = list(
            _bounded(piece for line in self._make_lines(width) for piece in wrapped(line, width))
        )
        super().lay_out()


def _bounded(lines: Iterator[Line]) -> Iterator[Line]:
    """Yield at most ``MOST_LINES`` of ``lines``, then a line that says so."""
    for number, line in enumerate(lines):
        if number == MOST_LINES:
            yield (Span("… more, not shown here", "warning"),)
            return
        yield line
