"""``mcpproxy show``: print the conversation in a recording, finished or still running."""

import os
from collections.abc import Iterable, Iterator

from mcpproxy.base import paths
from mcpproxy.base.style import Style
from mcpproxy.base.visible import visible
from mcpproxy.cli import find_traces, http_sessions
from mcpproxy.cli.arguments import Parser, UsageError
from mcpproxy.cli.http_sessions import EventFilter
from mcpproxy.cli.terminal import emit, tell, terminal_style
from mcpproxy.opening import follow, open_trace
from mcpproxy.reports.transcripts.transcript import HEADING, Transcript
from mcpproxy.session.frame import Event, Finding, Frame, RequestHead, ResponseHead
from mcpproxy.trace.reader import Header, Trace

EPILOG = """\
Each line: frame number, seconds since the start, how long an answer took, size, direction
(→ from the client, ← from the server), and the message. Findings are listed below their frame;
with --follow, a finding that only a later event reveals is listed after that event and names its frame.

  mcpproxy show                     the latest recording
  mcpproxy show --follow            the one that is being recorded now
  mcpproxy show --json | jq .       one object per line: seq, t, from, kind, method, id,
                                    answers, latency_ns, bytes, findings"""


def run(argv: list[str]) -> int:
    """Print one trace; without a name, the latest in the state directory."""
    parser = Parser("show", "Print the conversation in a recording.", EPILOG)
    parser.add_argument("trace", nargs="?", metavar="TRACE", help="the recording; without it the latest one")
    parser.add_argument("-f", "--follow", action="store_true", help="go on while the session is running")
    parser.add_argument("--full", action="store_true", help="show messages whole instead of shortened")
    parser.add_argument("--frames", type=_span, metavar="A-B", help="only these frames: 12, 3-9, 40- or -20")
    parser.add_argument(
        "--session", metavar="ID", help="only this HTTP session: its eight digits, or the first of them"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.add_argument("--no-color", "--no-colour", dest="colour", action="store_false", help="no colours")
    options = parser.parse_args(argv)
    path = _one_trace(options.trace)
    if options.trace is None and options.json:
        tell(f"showing {path}")
    if options.session and options.follow:
        raise UsageError("--session", "is not for --follow", "leave one of them out")
    shown = _shown_in(options.frames or (0, None))
    if options.session:
        shown = http_sessions.session_filter(open_trace(path), options.session, shown)
    if options.json:
        emit(_json(path, shown, full=options.full, following=options.follow), flush=options.follow)
    else:
        style = terminal_style(colour=options.colour)
        lines = _text(path, shown, style, full=options.full, following=options.follow)
        emit(lines, flush=options.follow)
    return 0


def _text(path: str, shown: EventFilter, style: Style, *, full: bool, following: bool) -> Iterator[str]:
    trace = open_trace(path)
    transcript = Transcript(style, full=full, transport=trace.header.transport)
    yield from header_lines(path, trace.header)
    for event in follow(path) if following else in_place(trace):
        lines = transcript.lines(event)  # even if it is not shown: a response line names its request
        if shown(event):
            yield from lines
    if not following:
        yield from (f"incomplete: {visible(note)}" for note in trace.notes)
        if trace.tally and trace.tally.judge_error:
            fault = visible(trace.tally.judge_error)
            yield f"incomplete: the judge failed while recording ({fault}); judge again with mcpproxy check"


def _json(path: str, shown: EventFilter, *, full: bool, following: bool) -> Iterator[str]:
    import json

    from mcpproxy.reports.transcripts import transcript_json

    trace = open_trace(path)
    header = trace.header
    about = {"label": header.label, "command": header.command, "started_at": header.started_at}
    about |= {"redaction": header.redaction}
    if header.transport == "http":
        about |= {"transport": header.transport, "upstream": header.upstream}
    yield json.dumps({"kind": "header", "path": path, **about})
    events: Iterable[Event | Finding] = follow(path) if following else in_place(trace)
    yield from transcript_json.lines(events, full=full, follow=following, shown=shown)
    if not following:
        yield from (json.dumps({"kind": "note", "text": note}) for note in trace.notes)


def in_place(trace: Trace) -> Iterator[Event | Finding]:
    """Yield the events with each finding directly after the frame that it is about.

    Some findings are recorded later, when a later frame reveals them. So the trace is read twice, first for
    its findings only.
    """
    waiting: dict[int, list[Finding]] = {}
    for finding in trace.findings():
        if finding.frame:
            waiting.setdefault(finding.frame, []).append(finding)
    for event in trace.events():
        if isinstance(event, Frame | RequestHead | ResponseHead):
            yield event
            yield from waiting.pop(event.seq, ())
        elif not isinstance(event, Finding) or not event.frame:
            yield event


def header_lines(path: str, header: Header) -> list[str]:
    """Return lines that identify the recording, and the column headings."""
    command = visible(" ".join(header.command) or header.upstream or header.mode)
    started = header.started_at[:19].replace("T", " ")
    return [visible(path), f"{visible(header.label)}, {visible(started)} UTC: {command}", "", HEADING]


def _shown_in(span: tuple[int, int | None]) -> EventFilter:
    """Return a filter that keeps the events in ``span``; every event for ``(0, None)``."""
    first, last = span

    def shown(event: Event | Finding) -> bool:
        if span == (0, None):
            return True
        number = http_sessions.frame_number(event)
        return number is not None and first <= number and (last is None or number <= last)

    return shown


def _span(text: str) -> tuple[int, int | None]:
    """Parse ``3-9``, ``12``, ``40-`` or ``-20`` into the first and last frame."""
    import argparse

    first, dash, last = text.partition("-")
    numbers = [part for part in (first, last) if part]
    if not numbers or not all(part.isdecimal() for part in numbers):
        raise argparse.ArgumentTypeError(f"{text!r} is not a range of frames such as 3-9")
    begin = int(first or 0)
    end = int(last) if last else None if dash else begin
    if end is not None and end < begin:
        raise argparse.ArgumentTypeError(f"{text!r} ends before it begins")
    return begin, end


def _one_trace(named: str | None) -> str:
    if named is None:
        folder = paths.state_dir()
        if found := find_traces.recent(folder):
            return found[0]
        raise UsageError(
            folder, "nothing recorded yet", "record a session with mcpproxy -- SERVER, or try mcpproxy demo"
        )
    if os.path.isdir(named) and not named.rstrip(os.sep).endswith(find_traces.JOURNAL_SUFFIX):
        raise UsageError(
            named, "a folder, and show takes one trace", f"list its traces: mcpproxy list {named}"
        )
    return find_traces.expand(named)[0]
