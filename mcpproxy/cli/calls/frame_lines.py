"""The frames of a recording as ``show --frames`` and ``show --json`` print them: each message on its own."""

import json
from collections.abc import Iterable, Iterator

from mcpproxy.base.style import Style
from mcpproxy.base.visible import visible
from mcpproxy.cli import find_traces, http_sessions
from mcpproxy.cli.calls.following import open_begun
from mcpproxy.cli.calls.heading import heading
from mcpproxy.cli.http_sessions import EventFilter
from mcpproxy.judge.session.filter import Filter
from mcpproxy.judge.session.frame import Event, Finding, Frame, RequestHead, ResponseHead
from mcpproxy.read.reports.transcripts import transcript_json
from mcpproxy.read.reports.transcripts.transcript import HEADING, Transcript
from mcpproxy.read.view.growing_trace import GrowingTrace
from mcpproxy.read.view.view import open_view
from mcpproxy.record.trace.reader import Trace
from mcpproxy.record.trace.records import Header, not_judged

Span = tuple[int, int | None]
"""The numbers of the first and the last frame, both included; ``None`` for no end."""

EVERYTHING: Span = (0, None)
"""The span of all events, also of those without a frame number."""


def as_text(path: str, shown: EventFilter, style: Style, *, full: bool, following: bool) -> Iterator[str]:
    """Yield a header, the lines of the events that pass ``shown``, and notes.

    The notes say what the recording lacks, and why it was not judged. ``full`` is as for ``Transcript``. With
    ``following``, the lines come until the recording ends, and there are no notes.

    Raises:
        TraceError: the recording cannot be read.
    """
    growing = GrowingTrace(path)
    trace = open_begun(path, growing.open) if following else growing.open()
    transcript = Transcript(style, full=full, header=trace.header)
    yield from header_lines(find_traces.shown(path), trace.header)
    for event in growing.follow() if following else with_findings_in_place(trace):
        lines = transcript.lines(event)  # even if it is not shown: a response line names its request
        if shown(event):
            yield from lines
    if not following:
        yield from (f"incomplete: {visible(note)}" for note in trace.notes)
        if reason := not_judged(trace.header, trace.tally):
            yield visible(reason)


def as_json(path: str, shown: EventFilter, *, full: bool, following: bool) -> Iterator[str]:
    """Yield the header, the events that pass ``shown``, and notes on missing parts, a JSON object each.

    ``full`` is as for ``transcript_json.lines``. With ``following``, the events come until the recording
    ends, and there are no notes.

    Raises:
        TraceError: the recording cannot be read.
    """
    growing = GrowingTrace(path)
    trace = open_begun(path, growing.open) if following else growing.open()
    header = trace.header
    about = {"label": header.label, "command": header.command, "started_at": header.started_at}
    about |= {"redaction": header.redaction}
    if header.transport == "http":
        about |= {"transport": header.transport, "upstream": header.upstream}
    yield json.dumps({"kind": "header", "path": path, **about})
    events: Iterable[Event | Finding] = growing.follow() if following else with_findings_in_place(trace)
    yield from transcript_json.lines(events, full=full, follow=following, shown=shown)
    if not following:
        yield from (json.dumps({"kind": "note", "text": note}) for note in trace.notes)


def with_findings_in_place(trace: Trace) -> Iterator[Event | Finding]:
    """Yield the events with each finding directly after the frame that it is about.

    Some findings are recorded later, when a later frame reveals them. So the trace is read twice, first for
    its findings only.
    """
    of_frame: dict[int, list[Finding]] = {}
    for finding in trace.findings():
        if finding.frame:
            of_frame.setdefault(finding.frame, []).append(finding)
    for event in trace.events():
        if isinstance(event, Frame | RequestHead | ResponseHead):
            yield event
            yield from of_frame.pop(event.seq, ())
        elif not isinstance(event, Finding) or not event.frame:
            yield event
        else:  # a finding comes after its frame, unless that is in an earlier file or was lost
            yield from of_frame.pop(event.frame, ())


def header_lines(path: str, header: Header) -> list[str]:
    """Return lines that identify the recording, and the column headings."""
    return [visible(path), heading(header), "", HEADING]


def call_filter(path: str, wanted: Filter, shown: EventFilter) -> EventFilter:
    """Return a filter for the events that pass ``shown`` and are part of a call that passes ``wanted``."""
    with open_view(path) as view:
        numbers = frozenset(view.frames_of(wanted))

    def is_shown(event: Event | Finding) -> bool:
        return http_sessions.frame_number(event) in numbers and shown(event)

    return is_shown


def span_filter(span: Span) -> EventFilter:
    """Return a filter that keeps the events in ``span``; every event for ``EVERYTHING``."""
    first, last = span

    def is_shown(event: Event | Finding) -> bool:
        if span == EVERYTHING:
            return True
        number = http_sessions.frame_number(event)
        return number is not None and first <= number and (last is None or number <= last)

    return is_shown
