"""The lines around the panes: titles, and the most important keys."""

from collections.abc import Sequence
from typing import Final

from mcpproxy.base.visible import visible
from mcpproxy.read.view.calls import Progress
from mcpproxy.read.view.recording_entry import RecordingEntry
from mcpproxy.show.tui.call_rows import CallRows
from mcpproxy.show.tui.session_lines import SessionItem
from mcpproxy.show.tui.spans import Line, Span

_HINTS: Final = (
    ("/", "filter"), ("Enter", "open"), ("Tab", "pane"), ("F", "findings"), ("f", "follow"),
    ("y", "copy"), ("?", "help"), ("q", "quit"),
)  # fmt: skip


def key_hints() -> Line:
    """Return the line of keys."""
    spans: list[Span] = []
    for key, what in _HINTS:
        spans += [Span(f" {key}", "key"), Span(f" {what} ", "dim")]
    return tuple(spans)


def percent(progress: Progress) -> str:
    """Return the part that was read: ``12 %``."""
    return f"{progress.done_bytes * 100 // max(progress.total_bytes, 1)} %"


def sessions_title(items: Sequence[SessionItem], entries: Sequence[RecordingEntry], words: str) -> Line:
    """Return the title over the sessions: their number, the words that select them, the time zone.

    The number is that of the lines; with ``words``, of the recordings shown and of all.
    """
    zone = Span("  times in UTC", "dim")
    if not words:
        return Span(f" Sessions {len(items):,}"), zone
    shown = len({item.entry.path for item in items})
    return Span(f" Sessions {shown:,} of {len(entries):,}"), Span(f"  {visible(words)}", "info"), zone


def calls_title(rows: CallRows | None, shown: int, *, follows: bool) -> Line:
    """Return the title over the calls: how many are shown, the session, the filter, and how much was read.

    ``follows`` is whether the cursor goes to new calls, which the title says while the recording runs.
    """
    if rows is None:
        return (Span(" Rows"),)
    text = f" Rows {shown:,}" + (f" of {rows.view.count():,}" if rows.is_filtered else "")
    spans = [Span(text)]
    if rows.session is not None:
        spans.append(Span(f"  session {visible(rows.view.index.session_name(rows.session))}", "info"))
    if rows.filter:
        spans.append(Span(f"  {visible(rows.filter.text)}", "info"))
    if follows and rows.view.running:
        spans.append(Span("  following", "good"))
    if rows.view.unread:
        spans.append(Span(f"  reading, {percent(rows.view.unread)}", "warning"))
    return tuple(spans)


def head_title(rows: CallRows | None, about: Line, *, is_paused: bool) -> Line:
    """Return the line at the top: whether the view is paused and the recording runs, then ``about``."""
    spans: list[Span] = [Span(" paused ", "warning")] if is_paused else []
    if rows is not None:
        spans += [Span(" ● ", "good") if rows.view.running else Span(" "), *about]
    return tuple(spans)


def detail_title(number: int | None, *, is_raw: bool) -> Line:
    """Return the title over the detail of the call ``number``, or of a recording if that is ``None``."""
    name = " Recording" if number is None else f" Call {number}"
    return Span(name), Span("  bytes as they passed" if is_raw else "", "dim")
