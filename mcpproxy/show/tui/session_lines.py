"""The recordings of a folder as lines, and the overview of one recording."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from mcpproxy.base.style import count, duration, size
from mcpproxy.base.visible import visible
from mcpproxy.judge.session.ending import ending_text
from mcpproxy.judge.session.frame import Severity
from mcpproxy.judge.session.outcomes import sum_counts
from mcpproxy.read.view.calls import SessionSummary
from mcpproxy.read.view.recorded_findings import fold_found
from mcpproxy.read.view.recording_entry import RecordingEntry
from mcpproxy.read.view.runs import ClientRun, runs
from mcpproxy.read.view.view import View
from mcpproxy.show.tui.call_lines import SEVERITY_MARKS, findings_mark, loss_tone
from mcpproxy.show.tui.detail_lines import finding_lines
from mcpproxy.show.tui.spans import Line, Span, Tone, cut, line_width

_STATES: Final[dict[str, tuple[str, Tone]]] = {
    "running": ("●", "good"),
    "starting": ("◌", "good"),
    "ended": ("○", "dim"),
    "cut": ("◑", "warning"),
    "unreadable": ("✗", "bad"),
}
"""State of a recording -> its mark and tone."""

_WIDE: Final = 44
"""Lines of at least this width have both the date and the time."""

_MAX_FINDINGS: Final = 200
"""How many findings are described at most."""


@dataclass(frozen=True, slots=True)
class SessionItem:
    """A line of the list: a recording, or one of the sessions in it.

    A run is the recordings of the servers that one client process used. ``run`` is set on the line of a
    recording whose run has several recordings. ``bracket`` is this line's part of the bracket around the run.
    """

    entry: RecordingEntry
    bracket: str = " "
    run: ClientRun | None = None
    session: SessionSummary | None = None


def session_items(
    entries: Sequence[RecordingEntry], opened: str = "", sessions: Sequence[SessionSummary] = ()
) -> list[SessionItem]:
    """Return the items of the list: the recordings, the latest first, those of a run next to each other.

    ``opened`` is the path of the open recording. Its ``sessions``, if there are several, follow it.
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
        counts = session.findings, session.worst_findings
        right: Line = tuple(findings_mark(session.severity, *counts, before=""))
        if not session.findings:
            right = (Span(f"{session.calls.total:,}", "bad" if session.calls.failed else "dim"),)
    else:
        mark, tone = _STATES[entry.state]
        clock = _clock(entry.started_ns, today, both=width >= _WIDE)
        left = (Span(item.bracket, "dim"), Span(f"{mark} ", tone), Span(f"{clock} ", "dim"))
        is_named = entry.server == entry.name or entry.title != entry.name
        peers = ["" if is_named else entry.server, entry.client]
        left += (Span(entry.title, "strong"), Span(f" {' '.join(filter(None, peers))}", "dim"))
        failed, findings = _failed_calls(entry), _worst_findings(entry)
        right = (failed, Span(" " if failed.text and findings.text else ""), findings)
    room = width - line_width(right) - 1
    shown: list[Span] = []
    for span in left:
        text = cut(span.text, room)
        room -= line_width((Span(text),))
        shown.append(Span(text, span.tone))
    return (*shown, Span(" " * (room + 1)), *right)


def _clock(started_ns: int, today: str, *, both: bool) -> str:
    """Return when a recording began, in UTC: ``10:20``, ``21 Nov`` on another day, or both.

    It is ``--:--`` if that is unknown.
    """
    if not started_ns:
        return "--:--"
    start = datetime.fromtimestamp(started_ns // 1_000_000_000, UTC)
    words, clock = f"{start.day} {_MONTHS[start.month - 1]}", f"{start:%H:%M}"
    return f"{words:>6} {clock}" if both else clock if f"{start:%Y-%m-%d}" == today else words


_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _failed_calls(entry: RecordingEntry) -> Span:
    """Return the number of failed calls, or else that of another kind of unsuccessful calls.

    It is ``failed`` if the server failed before any message, and empty without unsuccessful calls.
    """
    if entry.has_not_begun:
        return Span("failed", loss_tone("failed"))
    calls = entry.calls
    if calls is None or calls.all_successful:
        return Span("")
    number, word = calls.unsuccessful(running=entry.running)[0]
    return Span(f"{number:,} {word}", loss_tone(word))


def _worst_severity(counts: Mapping[str, int] | Mapping[Severity, int]) -> tuple[Severity, int] | None:
    """Return the worst severity that has findings, and their number; ``None`` without findings."""
    numbers = dict(counts)
    return next(((severity, numbers[severity]) for severity in SEVERITY_MARKS if numbers.get(severity)), None)


def _worst_findings(entry: RecordingEntry) -> Span:
    counts = entry.findings or {}
    if not (worst := _worst_severity(counts)):
        return Span("")
    (mark,) = findings_mark(worst[0], sum(counts.values()), worst[1], before="")
    return mark


def overview_lines(item: SessionItem, view: View | None) -> Iterator[Line]:
    """Yield the facts of a recording.

    If it is open in ``view``, the numbers of its calls, notes about missing records and the findings follow
    its title.
    """
    entry = item.entry
    mark, tone = _STATES[entry.state]
    yield (
        Span(f"{mark} ", tone),
        Span(entry.title, "strong"),
        Span(f"  {entry.state}", tone),
        Span("" if entry.ended == entry.state else f": {entry.ended}", "dim"),
    )
    if view is not None:
        yield (Span("  "), *_tally(view))
        for note in (*(f"incomplete: {note}" for note in view.notes), *filter(None, (view.not_judged,))):
            yield (Span("  "), Span(visible(note), "warning"))
        yield from _finding_groups(view)
    facts: list[tuple[str, str]] = [("recording", visible(entry.path))]
    facts.append(("command", " ".join(entry.command) or entry.upstream))
    facts.append(("server", f"{entry.server} {entry.server_version}".strip()))
    facts.append(("client", f"{entry.client} {entry.client_version}".strip()))
    facts.append(("revision", f"{entry.protocol} {entry.revision}".lstrip() if entry.revision else ""))
    facts.append(("started", entry.started_at[:19].replace("T", " ") + " UTC" if entry.started_at else ""))
    facts.append(("took", duration(entry.duration_ns) if entry.duration_ns is not None else ""))
    facts.append(("size", size(entry.size)))
    if item.run is not None:
        members = f"{count(len(item.run.entries), 'recording')} of one client ({item.run.certainty}"
        facts.append(("run", f"{members}: {item.run.why})"))
    for name, text in facts:
        if text:
            yield (Span(f"  {name:<10}", "dim"), Span(text))


def _tally(view: View) -> Iterator[Span]:
    """Yield the number of calls, then the numbers of unsuccessful calls of each kind."""
    calls = sum_counts(session.calls for session in view.sessions)
    yield Span(count(calls.total, "call"))
    for number, word in calls.unsuccessful(running=view.running):
        yield Span(f", {number:,} {word}", loss_tone(word))


def _finding_groups(view: View) -> Iterator[Line]:
    """Yield one line for each rule with findings, then the findings that belong to no call."""
    groups = view.findings.by_rule()
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
    all_findings = view.findings.with_texts() if groups else ()
    about_session = [finding for finding in all_findings if not finding.row]
    for finding in about_session[:_MAX_FINDINGS]:
        yield from finding_lines(finding)


def findings_lines(view: View) -> Iterator[Line]:
    """Yield the findings of a recording, each with its call; equal ones share an entry."""
    numbers = view.findings.counts()
    yield (Span(f"Findings: {view.found}", "strong"),)
    if view.not_judged:
        yield (Span(view.not_judged, "warning"),)
    unlisted = sum(numbers.values())
    for found, folded in fold_found(view.findings.with_texts())[:_MAX_FINDINGS]:
        unlisted -= 1 + len(folded.others)
        yield ()
        yield from finding_lines(found, more=folded.count_text)
        if found.row:
            yield (Span(f"  call {found.row}", "dim"),)
    if unlisted:
        yield ()
        yield (Span(f"{count(unlisted, 'more finding')}, counted above and not listed", "dim"),)


def head_line(view: View) -> Line:
    """Return the label and the peers of a recording.

    If all of it was read, more facts follow, such as the numbers of calls and findings.
    """
    sessions = view.sessions
    first = sessions[0] if sessions else None
    client = f"{first.client} {first.client_version}".strip() if first else ""
    server = f"{first.server} {first.server_version}".strip() if first else ""
    label = visible(view.header.label)
    peers = f"{client or 'a client'} → {server or label or 'a server'}"
    peers_have_label = not first or not label or label in (first.server, first.client)
    spans = [Span(peers, "strong")] if peers_have_label else [Span(f"{label}  ", "strong"), Span(peers)]
    if view.unread:
        return tuple(spans)
    if len(sessions) > 1:
        spans.append(Span(f" and {count(len(sessions) - 1, 'more session')}"))
    spans += [Span("  "), *_tally(view)]
    if worst := _worst_severity(view.findings.counts()):
        spans.append(Span(f", {view.found}", SEVERITY_MARKS[worst[0]][1]))
    if (close := view.ended) is not None and (close.ending != "exited" or close.exit_code):
        spans.append(Span(f", {ending_text(close, view.header)}", "warning"))
    if len(view.notes) > view.running:  # a running recording has one note that says so
        spans.append(Span(", incomplete", "warning"))
    if first and first.revision:
        spans.append(Span(f"  {first.revision}", "dim"))
    return tuple(spans)
