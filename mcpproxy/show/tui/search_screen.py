"""The search of all recordings: a filter, and the calls that pass it, those of the latest recording first."""

import asyncio
import os
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import ClassVar, Final, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from mcpproxy.base.style import count
from mcpproxy.base.visible import visible
from mcpproxy.judge.session.filter import EXAMPLE, Filter, FilterError, parse_filter
from mcpproxy.read.view.calls import Call
from mcpproxy.read.view.recording_entry import RecordingEntry
from mcpproxy.read.view.rows.search_recordings import RecordingSearch, calls_after
from mcpproxy.read.view.view import View, open_view
from mcpproxy.show.tui.call_lines import call_line, may_be_answered
from mcpproxy.show.tui.line_panes import Bar, CursorPane
from mcpproxy.show.tui.spans import Line, Span, Tone, cut, padded

MOST_FOUND: Final = 500
"""The most calls that are listed."""

_NAME_COLUMNS: Final = 20
"""How many columns the name of a recording takes."""


class FoundCall(NamedTuple):
    """A call that passes the filter, and its recording.

    Without a call, it is a recording whose server failed before any message.
    """

    entry: RecordingEntry
    call: Call | None


class FoundPane(CursorPane):
    """The calls that were found, and the recordings whose server failed before any message."""

    def __init__(self) -> None:
        super().__init__("found")
        self.found: list[FoundCall] = []

    @property
    def total(self) -> int:
        """The number of lines."""
        return len(self.found)

    def line(self, index: int, width: int) -> Line:
        """Return the name of the recording, and the call; without a call, how the recording ended."""
        entry, call = self.found[index]
        name = padded(entry.title, _NAME_COLUMNS)
        if call is None:
            return Span(f"{name} ", "info"), Span(cut(entry.ended, width - _NAME_COLUMNS - 1), "bad")
        waited_ns = call.waited_ns if entry.running and may_be_answered(call) else None
        return Span(f"{name} ", "info"), *call_line(call, width - _NAME_COLUMNS - 1, waited_ns=waited_ns)


class SearchScreen(ModalScreen[FoundCall | None]):
    """Searches ``entries`` in their order. Its result is what the user opens; ``None`` if nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "close", show=False),
        Binding("slash", "type", "filter", show=False),
    ]

    def __init__(self, entries: Sequence[RecordingEntry]) -> None:
        super().__init__()
        self._entries: Final = entries
        self._field: Final = Input(id="search-filter", placeholder=EXAMPLE)
        self._bar: Final = Bar("search-status")
        self._pane: Final = FoundPane()

    def compose(self) -> ComposeResult:
        """Return the field, the status line and the list of calls."""
        with Vertical(id="search"):
            yield self._field
            yield self._bar
            yield self._pane

    def on_mount(self) -> None:
        """Show how many recordings are searched."""
        self._show_status(f"Enter searches {count(len(self._entries), 'recording')}")
        self._field.focus()

    def _show_status(self, text: str, tone: Tone = "dim") -> None:
        self._bar.show((Span(f" {text}", tone),))

    def on_input_changed(self, event: Input.Changed) -> None:
        """Keep the event in this screen."""
        event.stop()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Search with the filter that was typed, or show why it is not a filter."""
        event.stop()
        try:
            wanted = parse_filter(event.value)
        except FilterError as fault:
            self._show_status(visible(str(fault)), "bad")
            return
        self._show_status("searching …")
        self.run_worker(self._search(wanted), exclusive=True)

    async def _search(self, wanted: Filter) -> None:
        """Search the recordings in a thread, and show the rows."""
        search = RecordingSearch(self._entries, lambda entry: open_view(entry.path, only_reads=True))

        def matching_calls(entry: RecordingEntry, view: View) -> Iterator[FoundCall]:
            if wanted.asks_for_failures and view.not_begun:
                yield FoundCall(entry, None)
            yield from (FoundCall(entry, call) for call in calls_after(view, wanted))

        rows = await asyncio.to_thread(lambda: list(islice(search.results(matching_calls), MOST_FOUND)))
        self._show_results(rows, search.place, search.faults)

    def _show_results(self, rows: list[FoundCall], searched: int, faults: Sequence[str]) -> None:
        """Show the found rows, and in the status line how many recordings were searched."""
        self._pane.found = rows
        self._pane.lay_out()
        self._pane.go_to(0, tell=False)
        where = f"{count(searched, 'recording')} searched"
        where += "; there may be more" if searched < len(self._entries) else ""
        if faults:  # each begins with the path, and all recordings are in one folder
            first = faults[0].removeprefix(os.path.dirname(self._entries[0].path) + os.sep)
            where += f"; {len(faults)} not read whole: {visible(first)}"
        failed_starts = sum(row.call is None for row in rows)
        if failed_starts:
            where = f"{failed_starts:,} failed before any message, {where}"
        self._show_status(f"{count(len(rows) - failed_starts, 'call')}, {where}", "plain")
        if rows:
            self._pane.focus()

    def on_cursor_pane_moved(self, event: CursorPane.Moved) -> None:
        """Keep the viewer from showing another detail."""
        event.stop()

    def on_cursor_pane_chosen(self, event: CursorPane.Chosen) -> None:
        """Open the call under the cursor."""
        event.stop()
        self.dismiss(self._pane.found[self._pane.cursor])

    def action_type(self) -> None:
        """Go back to the field."""
        self._field.focus()

    def action_leave(self) -> None:
        """Close the search."""
        self.dismiss(None)
