"""``mcpproxy tui``: the application with its panes, its keys, and its timers for running recordings."""

import asyncio
import os
from typing import ClassVar, Final

from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.events import DescendantFocus, Event, InputEvent, Key, Resize
from textual.timer import Timer
from textual.worker import Worker

from mcpproxy.base.style import count, size
from mcpproxy.base.system_words import os_reason
from mcpproxy.errors import McpProxyError
from mcpproxy.judge.session.filter import Filter, parse_filter
from mcpproxy.read.view import folder
from mcpproxy.read.view.recording_entry import RecordingEntry
from mcpproxy.show.tui import layout
from mcpproxy.show.tui.bar_lines import (
    calls_title,
    detail_title,
    head_title,
    key_hints,
    percent,
    sessions_title,
)
from mcpproxy.show.tui.call_lines import heading
from mcpproxy.show.tui.call_rows import CallRows
from mcpproxy.show.tui.detail_lines import detail_lines
from mcpproxy.show.tui.filter_field import FilterField, HiddenField, SessionField
from mcpproxy.show.tui.help_screen import help_lines
from mcpproxy.show.tui.line_panes import Bar, CursorPane
from mcpproxy.show.tui.panes import CallPane, DetailPane, SessionPane
from mcpproxy.show.tui.search_screen import FoundCall, SearchScreen
from mcpproxy.show.tui.session_lines import (
    SessionItem,
    findings_lines,
    head_line,
    overview_lines,
    session_items,
)
from mcpproxy.show.tui.shown_recording import ShownRecording
from mcpproxy.show.tui.spans import Line, Span
from mcpproxy.show.tui.text_screen import TextScreen

_TICK_S: Final = 0.25
"""The time between two looks for new rows."""
_FOLDER_S: Final = 1.0
"""The time between two looks for new recordings."""
_DETAIL_S: Final = 0.05
"""How long the cursor has to stay on a call or a session before that is shown."""
_MOST_RECORDS: Final = 400
"""How many records of a call are read at most."""
_MOST_COPIED: Final = 1 << 20
"""The most characters that are copied. Terminals ignore larger texts, and many ignore even smaller ones."""

_WIDE_COLUMNS: Final = 100
"""From this many columns on, the list of sessions is wide."""
_WIDEST_COLUMNS: Final = 140
"""From this many columns on, it is widest."""


class Viewer(App[None]):
    """The recordings in a folder, or one recording. ``path`` is a folder or a file."""

    ENABLE_COMMAND_PALETTE: ClassVar[bool] = False
    CSS: ClassVar[str] = layout.CSS
    BINDINGS: ClassVar[list[BindingType]] = layout.BINDINGS

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path: Final = path
        self.sessions: Final = SessionPane("sessions")
        self.calls: Final = CallPane("calls")
        self.detail: Final = DetailPane("detail")
        titles = ("sessions-title", "calls-title", "detail-title")
        self._bars: Final = {id: Bar(id) for id in ("head", "columns", "status", *titles)}
        # Widgets are attributes, because a query by id searches only the top screen, which may be the help.
        self._body: Final = Vertical(id="body")
        self._left: Final = Vertical(id="left")
        self._bottom: Final = Vertical(id="bottom")
        self._field: Final = FilterField()
        self._words_field: Final = SessionField()
        self._words = ""
        """The words that the user typed to select sessions."""
        self._entries: list[RecordingEntry] = []
        self._recording: Final = ShownRecording(
            self, self._show_rows, self._draw_new, self._show_failure, self._is_held
        )
        self._sought = 0
        """The number of the call that the user opened in the search, until it was read; else 0."""
        self.ticks = 0
        """How often the viewer has looked for new rows."""
        self._search: Worker[None] | None = None
        self._detail_timer: Timer | None = None
        self._is_raw = False
        self._is_paused = False
        self._follows = True
        self._wants_following = True
        """Whether the user wants to follow the next recording, too."""
        self._message: Line = ()
        self._head: Line = ()

    @property
    def is_settled(self) -> bool:
        """Whether the screen is up to date: nothing is being opened, searched or laid out."""
        waits = self._detail_timer is not None or self._search is not None
        return not waits and self._recording.is_settled

    @property
    def follows(self) -> bool:
        """Whether the cursor goes to new calls as they come."""
        return self._follows

    @property
    def _rows(self) -> CallRows | None:
        """The rows of the open recording; ``None`` while none is open."""
        return self._recording.rows

    def _is_held(self) -> bool:
        """Whether no rows may be added: during a pause, and while a search reads the present rows."""
        return self._is_paused or self._search is not None

    # The screen

    def compose(self) -> ComposeResult:
        """Return the panes."""
        yield self.bar("head")
        with self._body:
            with Horizontal(id="top"):
                with self._left:
                    yield self.bar("sessions-title")
                    yield self.sessions
                with Vertical(id="right"):
                    yield self.bar("calls-title")
                    yield self.bar("columns")
                    yield self.calls
            with self._bottom:
                yield self.bar("detail-title")
                yield self.detail
        yield self._field
        yield self._words_field
        yield self.bar("status")

    def bar(self, id: str) -> Bar:
        """Return one of the lines around the panes."""
        return self._bars[id]

    async def on_mount(self) -> None:
        """Find the recordings, open the latest, and start the timers that look for new ones."""
        self.calls.focus()
        self.set_interval(_TICK_S, self._tick)
        if os.path.isdir(self._path):
            self.set_interval(_FOLDER_S, self._look_into_folder)
        await self._look_into_folder()

    def on_resize(self, event: Resize) -> None:
        """Choose the sizes of the panes for the size of the window."""
        is_wide = event.size.width >= _WIDE_COLUMNS
        self._left.set_class(is_wide, "wide")
        self._left.set_class(event.size.width >= _WIDEST_COLUMNS, "widest")
        self._bottom.set_class(event.size.height >= 40, "wide")
        self.call_after_refresh(self._draw_bars)

    def _draw_bars(self) -> None:
        """Draw the lines around the panes."""
        rows = self._rows
        self.bar("head").show(head_title(rows, self._head, is_paused=self._is_paused))
        self.bar("sessions-title").show(sessions_title(self.sessions.items, self._entries, self._words))
        self.bar("calls-title").show(calls_title(rows, self.calls.total, follows=self._follows))
        chosen = self.calls.chosen
        number = chosen.number if chosen and not self.sessions.has_focus else None
        self.bar("detail-title").show(detail_title(number, is_raw=self._is_raw))
        self.bar("columns").show(heading(self.calls.columns, self.calls.digits))
        self.bar("status").show(self._message or key_hints())

    def _show_message(self, text: str, tone: str = "plain") -> None:
        self._message = (Span(f" {text}", "bad" if tone == "bad" else "plain"),)
        self._draw_bars()

    async def on_event(self, event: Event) -> None:
        """Handle an event. Keys and the mouse delay the reading of more records."""
        if isinstance(event, InputEvent):
            self._recording.key_pressed()
        await super().on_event(event)

    def on_key(self, event: Key) -> None:
        """Remove the message in the last line when a key is pressed."""
        del event
        if self._message:
            self._message = ()
            self._draw_bars()

    # Recordings

    async def _look_into_folder(self) -> None:
        """Read the list of recordings.

        Open the latest with a message, else the latest, if none is open. If the open one was followed and has
        ended, open the latest that runs.
        """
        if self._is_paused:
            return
        try:
            self._entries = await asyncio.to_thread(self._list_entries)
        except OSError as error:
            self._show_message(f"{self._path}: {os_reason(error)}", "bad")
            return
        self._show_sessions()
        items = self.sessions.items
        if not self._entries:
            self._recording.is_opening = False
            next_step = "record one with mcpproxy -- SERVER"
            self.calls.message = f"Nothing recorded yet in {self._path}: {next_step}"
            self.detail.show(lambda _: [(Span(self.calls.message),)])
        elif not self._recording.path and items:
            latest = next((item for item in items if not item.entry.is_empty), items[0])
            self._open_recording(latest.entry.path)
        elif self._opens_next():
            shown = {item.entry.path for item in items}
            running = [entry for entry in self._entries if entry.running and entry.path in shown]
            if running:
                self._open_recording(running[-1].path)

    def _opens_next(self) -> bool:
        """Whether the open recording was followed and has ended, so that the viewer opens a running one."""
        return self._follows and self._rows is not None and not self._rows.view.running

    def _list_entries(self) -> list[RecordingEntry]:
        if os.path.isdir(self._path):
            return folder.recordings(self._path)
        return [folder.recording(self._path)]

    def _show_sessions(self) -> None:
        self._head = head_line(self._rows.view) if self._rows else ()
        sessions = self._rows.view.sessions if self._rows and not self._rows.view.unread else ()
        words = self._words.lower().split()
        entries = [entry for entry in self._entries if all(word in entry.searched for word in words)]
        items = session_items(entries, self._recording.path, sessions)
        self.sessions.show(items)
        self._left.set_class(len(items) < 2 and not os.path.isdir(self._path), "alone")
        self._draw_bars()

    def _open_recording(self, path: str) -> None:
        """Open a recording and show its calls."""
        self._cancel_search()
        self._recording.open(path)
        self.calls.message = ""
        self.calls.show(None)
        self.sessions.go_to(self.sessions.index_of(path), tell=False)

    def _show_failure(self, fault: str) -> None:
        """Show why the recording cannot be read."""
        path = self._recording.path
        entry = next((entry for entry in self._entries if entry.path == path), None)
        if self._rows is None and entry is not None and entry.state == "starting":
            self._recording.path = ""  # the next look into the folder tries again
        self._show_message(fault, "bad")
        self._show_detail()

    def _show_rows(self, rows: CallRows) -> None:
        """Show the first rows of a recording that was opened."""
        self._follows = self._wants_following and rows.view.running
        self.calls.show(rows)
        if self._follows:
            self.calls.action_last()
        self._go_to_sought()
        self._show_sessions()
        self._show_detail()

    def _go_to_sought(self) -> None:
        """Go to the call that the user opened in the search, once it was read."""
        rows = self._rows
        if self._sought and rows is not None and self._sought <= rows.view.count():
            self.calls.go_to(rows.place(self._sought))
            self._sought = 0

    def _cancel_search(self) -> None:
        if self._search is not None:
            self._search.cancel()

    def on_unmount(self) -> None:
        """Close the recording."""
        self._cancel_search()
        self._recording.close()

    def _tick(self) -> None:
        """Show what was read and recorded since the last tick, and the timers of open calls."""
        self.ticks += 1
        self._draw_new()

    def _draw_new(self) -> None:
        """Show the rows that are new or have changed."""
        rows = self._rows
        if rows is None or self._is_held() or not self._recording.may_change:
            return
        try:
            first = self._recording.refresh()
        except McpProxyError as fault:
            self._show_message(str(fault), "bad")
            return
        chosen, is_final = self.calls.chosen, not (rows.view.running or rows.view.unread)
        if first or is_final:
            self.calls.show_changes(0 if is_final else first, follow=self._follows)
            self._go_to_sought()
            if not rows.view.unread:
                self._show_sessions()
        if chosen and ((first and first <= chosen.number) or is_final or rows.waited_ns(chosen) is not None):
            self._show_detail(stay=True)
        self.calls.draw_waiting()
        self._draw_bars()

    # The chosen session and call

    def on_cursor_pane_moved(self, event: CursorPane.Moved) -> None:
        """Show another session or call after ``_DETAIL_S``, because the cursor may move on."""
        if event.pane is self.calls:
            self._follows = self._follows and self.calls.cursor == self.calls.total - 1
        if self._detail_timer is not None:
            self._detail_timer.stop()
        show = self._show_detail if event.pane is self.calls else self._show_session
        self._detail_timer = self.set_timer(_DETAIL_S, show)
        self._draw_bars()

    def on_cursor_pane_chosen(self, event: CursorPane.Chosen) -> None:
        """Open the chosen session or call."""
        if event.pane is self.sessions:
            self._choose_session(self.sessions.chosen)
            self.calls.focus()
        else:
            self._body.add_class("zoomed")
            self.detail.focus()

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """Mark the pane that has the focus, and show the detail of its chosen recording or call."""
        del event
        for pane in (self.sessions, self.calls, self.detail):
            self.bar(f"{pane.id}-title").set_class(pane.has_focus, "focused")
        self._show_detail(stay=self.detail.has_focus)
        self._draw_bars()

    def _choose_session(self, item: SessionItem | None) -> None:
        """Open the recording of a line of the list, and show the calls of its session only."""
        if item is None:
            return
        number = item.session.number if item.session else None
        if item.entry.path != self._recording.path:
            self._open_recording(item.entry.path)
        elif self._rows is not None and self._rows.session != number:
            self._apply_filter(self._rows.filter, number)

    def _show_session(self) -> None:
        """Open the session under the cursor, so that all panes show the same one."""
        self._choose_session(self.sessions.chosen)
        self._show_detail()

    def _show_detail(self, *, stay: bool = False) -> None:
        """Show the chosen call; if the sessions have the focus or there is no call, show a recording.

        ``stay`` keeps the scroll position.
        """
        if self._detail_timer is not None:
            self._detail_timer.stop()
            self._detail_timer = None
        rows, item, call = self._rows, self.sessions.chosen, self.calls.chosen
        if self.sessions.has_focus or call is None:
            if item is not None:
                is_read = rows and item.entry.path == self._recording.path and not rows.view.unread
                view = rows.view if rows and is_read else None
                lines = list(overview_lines(item, view))
                if rows is not None and rows.is_filtered and not self.calls.total:
                    lines.insert(0, (Span("No call passes the filter.", "warning"),))
                self.detail.show(lambda _: lines, stay=stay)
        elif rows is not None:
            detail, raw = rows.view.parts(call.number, _MOST_RECORDS), self._is_raw
            waited_ns = rows.waited_ns(detail.call)
            self.detail.show(
                lambda width: detail_lines(detail, width, raw=raw, waited_ns=waited_ns), stay=stay
            )
        self._draw_bars()

    # The filter

    def _apply_filter(self, filter: Filter, session: int | None) -> None:
        """Begin to apply a filter; ``session`` is the number of the only session shown, ``None`` for all."""
        self._cancel_search()
        self._search = self.run_worker(self._filter_rows(filter, session), group="filter")

    async def _filter_rows(self, filter: Filter, session: int | None) -> None:
        """Apply a filter in steps, between which keys are handled; ``Esc`` cancels this task."""
        rows = self._rows
        assert rows is not None
        chosen = self.calls.chosen
        try:
            for progress in rows.apply_filter(filter, session):
                self._show_message(
                    f"searching, {percent(progress)} read, {progress.found:,} lines found (Esc: stop)"
                )
                await asyncio.sleep(0)
            self._message = ()
            self.calls.show(rows, chosen.number if chosen else 0)
            self._show_detail()
        finally:
            self._search = None

    def on_filter_field_checked(self, event: FilterField.Checked) -> None:
        """Show what is wrong with the filter, while the user types it."""
        if event.fault:
            self._show_message(event.fault, "bad")
        else:
            self._message = ()
            self._draw_bars()

    def on_filter_field_entered(self, event: FilterField.Entered) -> None:
        """Apply the filter that the user typed."""
        self._close_field(self._field, self.calls)
        if self._rows is not None:
            self._apply_filter(event.filter, self._rows.session)

    def on_session_field_typed(self, event: SessionField.Typed) -> None:
        """Show the sessions with the words that the user types, and open the one under the cursor."""
        if event.is_entered:
            self._close_field(self._words_field, self.sessions)
        elif self._words_field.is_open:
            self._select_sessions(event.text)

    def _select_sessions(self, words: str) -> None:
        """Show only the sessions that have all ``words``."""
        self._words = words
        self._show_sessions()
        self._show_session()

    def _close_field(self, field: HiddenField, then: CursorPane) -> None:
        field.close()
        then.focus()
        self._message = ()
        self._draw_bars()

    # Keys

    def action_filter(self) -> None:
        """Open the field for the filter of calls; in the list of sessions, the field for their words."""
        if self.sessions.has_focus:
            self._words_field.open(self._words)
        else:
            self._field.open(self._rows.filter.text if self._rows else "")

    def action_search_all(self) -> None:
        """Open the search of the calls of all recordings."""
        self.push_screen(SearchScreen(self._entries[::-1]), self._open_found)

    def _open_found(self, found: FoundCall | None) -> None:
        if found is None:
            return
        self._words, self._sought = "", found.call.number if found.call else 0
        self._show_sessions()
        self._open_recording(found.entry.path)
        self.calls.focus()

    def action_leave(self) -> None:
        """Go back: close what was opened last, clear the filter, or go to the previous pane."""
        body = self._body
        if self._field.is_open:
            self._close_field(self._field, self.calls)
        elif self._words_field.is_open:
            self._close_field(self._words_field, self.sessions)
        elif self.sessions.has_focus and self._words:
            self._select_sessions("")
        elif self._search is not None:
            self._search.cancel()
            self._show_message("the search was stopped")
        elif body.has_class("zoomed") or self.detail.has_focus:
            body.remove_class("zoomed")
            self.calls.focus()
        elif self._rows is not None and self._rows.filter:
            self._apply_filter(parse_filter(""), self._rows.session)
        elif self._rows is not None and self._rows.session is not None:
            self._apply_filter(self._rows.filter, None)
        elif not self._left.has_class("alone"):
            self.sessions.focus()

    def action_session(self, step: int) -> None:
        """Open the session that is ``step`` items further in the list."""
        if self.sessions.items:
            self.sessions.go_to(self.sessions.cursor + step, tell=False)
            self._choose_session(self.sessions.chosen)

    def action_follow(self) -> None:
        """Start or stop following new calls."""
        self._follows = self._wants_following = not self._follows
        if self._follows:
            self.calls.action_last()
        self._show_message("following new calls" if self._follows else "not following")

    def action_pause(self) -> None:
        """Start or end a pause, in which nothing on the screen changes."""
        self._is_paused = not self._is_paused
        self._draw_bars()

    def action_raw(self) -> None:
        """Switch between the bytes of messages and their layout."""
        self._is_raw = not self._is_raw
        self._show_detail()

    def action_copy(self) -> None:
        """Copy the request and its answer, as they were sent, to the clipboard of the terminal."""
        call, rows = self.calls.chosen, self._rows
        if call is None or rows is None:
            return
        messages = rows.messages(call.number, _MOST_RECORDS)
        text = b"\n".join(messages).decode("utf-8", "backslashreplace")
        if not text:
            self._show_message("this row has no message to copy", "bad")
        elif len(text) > _MOST_COPIED:
            self._show_message(f"{size(len(text))} are too much for the clipboard of a terminal", "bad")
        else:
            self.copy_to_clipboard(text)
            self._show_message(f"copied {count(len(messages), 'message')} of call {call.number}")

    def action_theme(self) -> None:
        """Change to the next theme."""
        self.theme = layout.next_theme(self.theme)
        self._show_message(f"theme {self.theme}")

    def action_help(self) -> None:
        """Show the help: keys, marks and filters."""
        self.push_screen(TextScreen(help_lines))

    def action_findings(self) -> None:
        """Show the findings of the recording so far."""
        if self._rows is not None:
            lines = list(findings_lines(self._rows.view))
            self.push_screen(TextScreen(lambda _: iter(lines)))
