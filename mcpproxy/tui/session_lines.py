"""The recordings of a folder as lines, and what one of them is."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from mcpproxy.base.style import count, duration, size
from mcpproxy.base.visible import visible
from mcpproxy.reports.transcripts.transcript import ending_text
from mcpproxy.tui.call_lines import SEVERITY_MARKS
from mcpproxy.tui.detail_lines import finding_lines
from mcpproxy.tui.spans import Line, Span, Tone, cut, line_width
from mcpproxy.view.calls import FoundRule, SessionSummary
from mcpproxy.view.folder import RecordingEntry
from mcpproxy.view.runs import ClientRun, runs
from mcpproxy.view.view import View

_STATES: Final[dict[str, tuple[str, Tone]]] = {
    "running": ("●", "good"),
    "starting": ("◌", "good"),
    "ended": ("○", "dim"),
    "cut": ("◑", "warning"),
    "unreadable": ("✗", "bad"),
}

_WIDE: Final = 34
"""From this width on a line has the date and the time."""

_FINDINGS: Final = 200
"""How many findings are described, of those that belong to no call."""


@dataclass(frozen=True, slots=True)
class SessionItem:
    """A recording, or one of several sessions in it. ``bracket`` joins the recordings of a run."""

    entry: RecordingEntry
    bracket: str = " "
    run: ClientRun | None = None
    session: SessionSummary | None = None


def session_items(
    entries: Sequence[RecordingEntry], opened: str = "", sessions: Sequence[SessionSummary] = ()
) -> list[SessionItem]:
    """Return the recordings, the latest first, and below the opened one its sessions if there are several.

    The recordings of a run stand together.
    """
    items: list[SessionItem] = []
    for run in sorted(runs(entries), key=lambda run: -max(entry.started_ns for entry in run.entries)):
        last = len(run.entries) - 1
        for number, entry in enumerate(reversed(run.entries)):
            bracket = " " if not last else "┌" if not number else "└" if number == last else "│"
            items.append(SessionItem(entry, bracket, run if last else None))
            if entry.path == opened and len(sessions) > 1:
                items += [SessionItem(entry, bracket, None, session) for session in sessions]
    return items


def session_line(item: SessionItem, width: int, today: str) -> Line:
    """Return one item in ``width`` columns. ``today`` is the date in UTC: ``2026-11-22``."""
    entry, session = item.entry, item.session
    if session is not None:
        name = session.name or "without a session"
        left: Line = (Span("   ├ ", "dim"), Span(name, "plain"), Span(f" {session.client}", "dim"))
        right: Line = (_findings_mark(session.severity or "", session.findings),)
        if not session.findings:
            right = (Span(f"{session.rows:,}", "bad" if session.errors else "dim"),)
    else:
        mark, tone = _STATES[entry.state]
        clock = _clock(entry.started_ns, today, both=width >= _WIDE)
        left = (Span(item.bracket, "dim"), Span(f"{mark} ", tone), Span(f"{clock} ", "dim"))
        left += (Span(server_name(entry), "strong"), Span(f" {entry.client}", "dim"))
        right = (_worst(entry),)
    room = width - line_width(right) - 1
    shown: list[Span] = []
    for span in left:
        text = cut(span.text, room)
        room -= line_width((Span(text),))
        shown.append(Span(text, span.tone))
    return (*shown, Span(" " * (room + 1)), *right)


def server_name(entry: RecordingEntry) -> str:
    """Return the best name of a server that a recording gives."""
    command = os.path.basename(entry.command[0]) if entry.command else entry.upstream
    return entry.server or entry.label or command or visible(os.path.basename(entry.path))


def _clock(started_ns: int, today: str, *, both: bool) -> str:
    """Return when a recording began, in UTC as everywhere: ``10:20``, on another day ``21 Nov``."""
    if not started_ns:
        return "--:--"
    began = datetime.fromtimestamp(started_ns // 1_000_000_000, UTC)
    words, clock = f"{began.day} {_MONTHS[began.month - 1]}", f"{began:%H:%M}"
    return f"{words:>6} {clock}" if both else clock if f"{began:%Y-%m-%d}" == today else words


_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _worst(entry: RecordingEntry) -> Span:
    found = entry.findings or {}
    for severity in ("error", "warning"):
        if number := found.get(severity, 0):
            return _findings_mark(severity, number)
    return Span("")


def _findings_mark(severity: str, number: int) -> Span:
    for known, (mark, tone) in SEVERITY_MARKS.items():
        if severity == known:
            return Span(f"{mark}{number:,}", tone)
    return Span("")


def overview_lines(item: SessionItem, view: View | None) -> Iterator[Line]:
    """Yield what a recording is, what is missing from it, and what was found; ``view`` if it is open."""
    entry = item.entry
    mark, tone = _STATES[entry.state]
    yield (
        Span(f"{mark} ", tone),
        Span(server_name(entry), "strong"),
        Span(f" {entry.server_version}", "dim"),
        Span(f"  {entry.state}", tone),
        Span("" if entry.ended == entry.state else f": {entry.ended}", "dim"),
    )
    if view is not None:
        yield (Span("  "), *_tally(view.sessions))
        for note in (*(f"incomplete: {note}" for note in view.notes), *filter(None, (view.not_judged,))):
            yield (Span("  "), Span(visible(note), "warning"))
        yield from _found(view)
    facts: list[tuple[str, str]] = [("recording", visible(entry.path))]
    facts.append(("command", " ".join(entry.command) or entry.upstream))
    facts.append(("client", f"{entry.client} {entry.client_version}".strip()))
    facts.append(("revision", " ".join(filter(None, (entry.protocol, entry.revision)))))
    facts.append(("started", entry.started_at[:19].replace("T", " ") + " UTC" if entry.started_at else ""))
    facts.append(("took", duration(entry.duration_ns) if entry.duration_ns is not None else ""))
    facts.append(("size", size(entry.size)))
    if item.run is not None:
        others = f"{count(len(item.run.entries), 'recording')} of one client ({item.run.certainty}"
        facts.append(("run", f"{others}: {item.run.why})"))
    for name, text in facts:
        if text:
            yield (Span(f"  {name:<10}", "dim"), Span(text))


def _tally(sessions: Sequence[SessionSummary]) -> Iterator[Span]:
    """Yield the counts of calls, those that went wrong in their tones."""
    yield Span(count(sum(each.rows for each in sessions), "call"))
    if errors := sum(each.errors for each in sessions):
        yield Span(f", {count(errors, 'error')}", "bad")
    if unanswered := sum(each.unanswered for each in sessions):
        yield Span(f", {unanswered:,} unanswered", "warning")


def _found(view: View) -> Iterator[Line]:
    """Yield the findings of each rule in a line, then those that belong to no call."""
    groups = view.findings_by_rule()
    for group in groups:
        mark, tone = SEVERITY_MARKS[group.severity]
        rows = [f"{row}" for row in sorted(set(group.rows)) if row]
        where = f"  calls {', '.join(rows[:5])}{' …' if len(rows) > 5 else ''}" if rows else ""
        named = " ".join(filter(None, (group.rule, group.name)))
        yield (
            Span(f"{mark} {group.count:,} × ", tone),
            Span(named, "strong"),
            Span(f"  {group.summary}"),
            Span(where, "dim"),
        )
    whole: list[FoundRule] = [found for found in view.findings() if not found.row] if groups else []
    for found in whole[:_FINDINGS]:
        yield from finding_lines(found)


def head_line(view: View) -> Line:
    """Return who speaks in a recording, and how it stands."""
    sessions = view.sessions
    first = sessions[0] if sessions else None
    client = f"{first.client} {first.client_version}".strip() if first else ""
    server = f"{first.server} {first.server_version}".strip() if first else ""
    peers = f"{client or 'a client'} → {server or visible(view.header.label) or 'a server'}"
    spans = [Span(peers, "strong")]
    if len(sessions) > 1:
        spans.append(Span(f" and {count(len(sessions) - 1, 'more session')}"))
    spans += [Span("  "), *_tally(sessions)]
    if found := sum(group.count for group in view.findings_by_rule()):
        spans.append(Span(f", {count(found, 'finding')}", "bad"))
    if (close := view.ended) is not None and (close.ending != "exited" or close.exit_code):
        spans.append(Span(f", {ending_text(close, view.transport)}", "warning"))
    if len(view.notes) > view.running:  # while it is running, one of them says just that
        spans.append(Span(", incomplete", "warning"))
    if first and first.revision:
        spans.append(Span(f"  {first.revision}", "dim"))
    return tuple(spans)
