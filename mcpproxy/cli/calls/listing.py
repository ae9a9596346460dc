"""The calls of a recording as ``show`` prints them: a header, one line for each call, how it ended."""

from collections.abc import Iterable, Iterator, Mapping

from mcpproxy.base.style import Style, count, decoded, duration
from mcpproxy.base.telling_line import telling_line
from mcpproxy.base.visible import visible
from mcpproxy.cli import find_traces
from mcpproxy.cli.calls.heading import heading
from mcpproxy.cli.calls.lines_of_calls import CallLines, session_marks
from mcpproxy.judge.session.ending import ending_text
from mcpproxy.judge.session.filter import Filter
from mcpproxy.judge.session.frame import ExchangeEnd, Finding, Frame, RequestHead, ResponseHead, Stderr
from mcpproxy.judge.session.outcomes import WORDS, Outcome, count_calls
from mcpproxy.read.view.calls import Call, Part, Role, SessionSummary
from mcpproxy.read.view.causes import LOST, said_beyond, stderr_lines
from mcpproxy.read.view.negotiation import negotiations
from mcpproxy.read.view.summaries import call_outcomes
from mcpproxy.read.view.view import View
from mcpproxy.record.trace.records import Header

_HTTP_ROLES = (Role.HTTP_REQUEST, Role.HTTP_RESPONSE, Role.HTTP_END)
_CALLS_IN_BATCH = 500
"""How many calls are taken from the view at a time."""
_LISTED_SESSIONS = 8
"""How many sessions the header names."""
_STDERR_LINES = 3
"""The most lines of stderr that are shown below a call without a result."""
_MILD_WORDS = (WORDS[Outcome.CANCELLED], WORDS[Outcome.DECLINED])
"""The outcomes whose number is yellow instead of red."""
_MOST_EXPLAINED = 20
"""How many calls without a result get lines that say why. Each costs a search of the recording."""


def listing(
    view: View, wanted: Filter, style: Style, *, heads: bool = False, full: bool = False
) -> Iterator[str]:
    """Yield a header, the lines of the calls that pass the filter, and how the recording ended.

    ``heads`` adds the HTTP heads to each call, ``full`` its whole arguments and result.
    """
    yield from header_lines(
        find_traces.shown(view.path), view.header, view.sessions, style, negotiations(view)
    )
    yield style.paint(CallLines(style, session_marks(view.sessions)).heading, "dim")
    yield from call_lines(view, wanted, style, heads=heads, full=full)
    yield from footer_lines(view, wanted, style)


def call_lines(view: View, wanted: Filter, style: Style, *, heads: bool, full: bool) -> Iterator[str]:
    """Yield the lines of the calls and findings alone; the arguments are those of ``listing``."""
    lines = CallLines(style, session_marks(view.sessions))
    findings_of_row, explained = findings_by_row(view), 0
    if heads or full:
        view.sort_parts()
    for call, is_inner in nested(view, wanted):
        yield from lines.call(call, is_running=view.running, is_inner=is_inner)
        if heads or full:
            for part in view.parts(call.number).parts:
                if part.row == call.number:
                    yield from _part_lines(part, lines, style, heads=heads, full=full)
        if call.outcome in LOST and explained < _MOST_EXPLAINED:
            explained += 1
            yield from why_lines(view, call, lines)
        yield from lines.findings(findings_of_row.get(call.number, ()))
    if not wanted:
        yield from lines.findings(findings_of_row.get(0, ()), where=" (about the session)")


def nested(view: View, wanted: Filter) -> Iterator[tuple[Call, bool]]:
    """Yield the calls that pass the filter, each followed by the requests sent within it.

    The second value is true for such an inner request, which is shown below its call. If its call does not
    pass, it is yielded as a call of its own; if it does not pass itself, it is left out.
    """
    parents = view.columns.parent
    passing = set(view.numbers(wanted)) if wanted and any(parents) else None

    def is_shown(number: int) -> bool:
        return passing is None or number in passing

    inner: dict[int, list[int]] = {}
    if any(parents):
        for number, parent in enumerate(parents):
            if parent and is_shown(number) and is_shown(parent):
                inner.setdefault(parent, []).append(number)
    below = {number for numbers in inner.values() for number in numbers}
    start = 0
    while batch := view.calls(wanted, start, _CALLS_IN_BATCH):
        start += len(batch)
        for call in batch:
            if call.number not in below:
                yield call, False
                for number in inner.get(call.number, ()):
                    yield view.call(number), True


def why_lines(view: View, call: Call, lines: CallLines) -> list[str]:
    """Return lines that may explain why a call has no result: details of its error, and stderr."""
    parts = view.parts(call.number).parts
    more = said_beyond(call, parts)
    shown_by = f"show --call {call.number} {find_traces.handle_of(view.path)}".strip()
    return [*(lines.note(more, "dim") if more else ()), *_stderr_lines(call, parts, lines, shown_by)]


def _stderr_lines(call: Call, parts: Iterable[Part], lines: CallLines, shown_by: str) -> list[str]:
    """Return what the server wrote to stderr while a call was open.

    Of more than a few lines, only the one that probably names the error is returned, with the command
    ``shown_by`` that shows all. If the line of the call already quotes that one, the command is
    returned without it, and of a few lines none.
    """
    blocks = [part for part in parts if isinstance(part.record, Stderr)]
    number = sum(part.lines for part in blocks)
    telling = telling_line([part.summary for part in blocks], known=call.result)
    has_cause = call.outcome in (Outcome.UNANSWERED, Outcome.CANCELLED)
    is_quoted = has_cause and telling and call.cause.endswith(telling)
    if number > _STDERR_LINES:
        where = f"{count(number, 'line')}: {shown_by}"
        return lines.note(f"stderr: {where if is_quoted else f'{telling} ({where})'}", "dim")
    texts = [] if is_quoted else [line for part in blocks for line in stderr_lines(part) if line]
    return [line for text in texts for line in lines.note(f"stderr: {text}", "dim")]


def findings_by_row(view: View) -> dict[int, list[Finding]]:
    """Return the number of a row -> its findings; those about the whole session are under 0."""
    by_row: dict[int, list[Finding]] = {}
    for finding, row in view.findings.with_rows():
        by_row.setdefault(row, []).append(finding)
    return by_row


def header_lines(
    path: str,
    header: Header,
    sessions: Iterable[SessionSummary],
    style: Style,
    negotiated: Mapping[int, str] | None = None,
) -> Iterator[str]:
    """Yield the path, the label, the start, the command, and the participants of a recording.

    ``negotiated`` maps the number of a session to a sentence about how its revision was agreed on.
    """
    yield style.paint(visible(path), "bold")
    yield heading(header)
    named = [session for session in sessions if session.client or session.server]
    for session in named[:_LISTED_SESSIONS]:
        yield participants(session, style)
        if how := (negotiated or {}).get(session.number):
            yield style.paint(f"  {how}", "dim")
    if len(named) > _LISTED_SESSIONS:
        yield f"and {count(len(named) - _LISTED_SESSIONS, 'more session')}"
    yield ""


def participants(session: SessionSummary, style: Style) -> str:
    """Return the client, the server and the protocol revision of a session."""
    client = f"{session.client or 'a client'} {session.client_version}".strip()
    server = f"{session.server or 'a server'} {session.server_version}".strip()
    spoken = f"{session.protocol.upper()} {session.revision}".strip()
    name = f"session {session.name}: " if session.name else ""
    return f"{name}{client} {'→' if style.unicode else '->'} {server}, {spoken}"


def footer_lines(view: View, wanted: Filter, style: Style) -> Iterator[str]:
    """Yield how the recording ended, its numbers of calls and findings, and what is missing or not judged."""
    yield ""
    if (close := view.ended) is not None:
        colours = () if close.exit_code == 0 else ("bold", "red")
        how = ending_text(close, view.header)
        after = "" if close.ending == "not started" else f", after {duration(close.observed_at_ns)}"
        yield style.paint(f"{how}{after}", *colours)
    elif view.running:
        yield "it is still being recorded: mcpproxy show --follow"
    yield summary(view, style)
    if wanted:
        yield f"{count(view.count(wanted), 'row')} of {view.count():,} shown: {visible(wanted.text)}"
    yield from (f"{style.paint('incomplete:', 'yellow')} {visible(note)}" for note in view.notes)
    if view.not_judged:
        yield style.paint(view.not_judged, "yellow")


def summary(view: View, style: Style) -> str:
    """Return one line with the numbers of calls, frames and findings."""
    calls = count_calls(call_outcomes(view.columns))
    parts = [count(view.count(), "exchange") if view.header.model else count(calls.total, "call")]
    for number, word in calls.unsuccessful(running=view.running):
        parts.append(style.paint(f"{number:,} {word}", "yellow" if word in _MILD_WORDS else "red"))
    severities = view.findings.counts()
    colours = ("bold", "red") if severities.get("error") else ("yellow",) if any(severities.values()) else ()
    return f"{', '.join(parts)}; {count(view.frames, 'frame')}; {style.paint(view.found, *colours)}"


def _part_lines(part: Part, lines: CallLines, style: Style, *, heads: bool, full: bool) -> Iterator[str]:
    if part.role in _HTTP_ROLES:
        if heads:
            yield from head_lines(part, lines.indent, style, fields=full)
    elif full and isinstance(part.record, Frame) and part.role not in (Role.PROGRESS, Role.LOG):
        if part.record.raw:
            yield from content_lines(part.record, lines.indent, style)
        else:
            yield lines.indent + style.paint(part.summary, "dim")


def head_lines(part: Part, indent: str, style: Style, *, fields: bool) -> Iterator[str]:
    """Yield the lines of an HTTP head, or one line for an exchange that was cut; none for other records.

    ``fields`` adds a line for each header field.
    """
    record = part.record
    number = style.paint(f"#{getattr(record, 'exchange', 0)}", "dim")
    match record:
        case RequestHead():
            yield f"{indent}{style.arrow('client')} {number} {part.summary}"
        case ResponseHead():
            by = "  from mcpproxy" if record.by_proxy else ""
            yield f"{indent}{style.arrow('server')} {number} {part.summary}{by}"
        case ExchangeEnd(cut=True):
            yield f"{indent}{style.paint(f'#{record.exchange} {part.summary}', 'yellow')}"
            return
        case _:
            return
    if fields:
        for name, value in record.headers:
            yield f"{indent}    {style.paint(f'{visible(name)}: {visible(value)}', 'dim')}"


def content_lines(frame: Frame, indent: str, style: Style) -> Iterator[str]:
    """Yield the whole content of a frame: a JSON message laid out, anything else as it is."""
    from mcpproxy.cli.calls.json_layout import laid_out

    text = frame.raw.decode("utf-8", "backslashreplace")
    width = max((style.width or 100) - len(indent) - 2, 40)
    arrow = style.arrow(frame.sender)
    content = (
        laid_out(text, width, opens_strings=True) if frame.raw[:1] in (b"{", b"[") else [decoded(frame.raw)]
    )
    for number, line in enumerate(content):
        yield f"{indent}{arrow if not number else ' '} {style.paint(visible(line), 'dim')}"
