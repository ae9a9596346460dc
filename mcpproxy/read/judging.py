"""Judge a recording again by its frames alone, for ``mcpproxy check``, the Python API and the pytest plugin.

The findings in the recording are ignored. So a recording by an older mcpproxy gets the findings of this
version, and nobody can hide a finding by editing the trace.
"""

from collections.abc import Callable
from typing import Final

from mcpproxy.judge.ruleset.ruleset import Ruleset
from mcpproxy.judge.ruleset.selection import Selection
from mcpproxy.judge.session.ending import not_begun
from mcpproxy.judge.session.frame import Close, Eof, Event, Finding, Frame, RequestHead, ResponseHead, Signal
from mcpproxy.judge.session.outcomes import CallCounts, count_calls
from mcpproxy.read.reports.judged_traces import JudgedTrace
from mcpproxy.record.recorder.judge import NothingJudged
from mcpproxy.record.trace.reader import Trace
from mcpproxy.record.trace.records import NO_MCP

_EVENTS_PER_PROGRESS: Final = 2048
"""``progress`` is called after so many events each: every few hundredths of a second."""


def judge(
    trace: Trace,
    rules: Ruleset,
    selection: Selection,
    shown: Callable[[Event | Finding], bool] | None = None,
    progress: Callable[[int], None] | None = None,
) -> JudgedTrace:
    """Judge the frames of a trace as the recorder does during a session.

    All frames are judged, except in a recording of requests to a language model, which has no MCP. If
    ``shown`` is given, the result counts only the frames and has only the findings for which ``shown``
    returns true. It is called in recording order, also for other events, except ``Close`` and findings in the
    recording. ``progress`` is called now and then with the number of bytes read so far.

    Raises:
        TraceError: the trace cannot be read.
        CustomRuleError: a custom rule failed.
    """
    # Normally the observer lists only the first findings with the same cause. With ``shown`` it must list all
    # of them, because those to be shown may be later ones.
    observer = rules.observer(
        joined_late=trace.joined_late,
        redacted=trace.redacted,
        over_http=trace.header.transport == "http",
        lists_all=shown is not None,
        has_faults=bool(trace.header.faults),
    )
    unjudged = NO_MCP if trace.header.model else ""
    observe = NothingJudged().observe if unjudged else observer.observe
    frames = 0
    findings: list[Finding] = []
    places = {0: (trace.path, 1)}
    close: Close | None = None
    first_end = ""
    for number, event in enumerate(trace.events(), 1):
        if progress is not None and number % _EVENTS_PER_PROGRESS == 0:
            progress(trace.read_bytes)
        # Nearly all events are frames, so they are tested for first.
        if type(event) is Frame:
            if shown is None or shown(event):
                frames += 1
        elif isinstance(event, Finding):
            continue
        elif type(event) is Close:
            close = event
        else:
            if not first_end and isinstance(event, Eof | Signal):
                first_end = event.sender if isinstance(event, Eof) else event.name
            if shown is not None:
                shown(event)
        if new_findings := observe(event):
            new_findings = [f for f in new_findings if selection.takes(f.rule)]
            findings += new_findings if shown is None else filter(shown, new_findings)
            if type(event) is Frame or isinstance(event, RequestHead | ResponseHead):
                places[event.seq] = trace.place
    # ``places_of`` reads the trace again, which changes these attributes.
    complete, notes = trace.complete, (*trace.notes, *filter(None, [observer.forgot]), *observer.left_out)
    tally, waiting_ns, failed_start = trace.tally, None, ""
    if close is None or tally is None:
        calls, waiting_ns = _calls_so_far(trace)
    else:
        calls = tally.calls
        failed_start = not_begun(close, trace.header, sum(tally.frames.values()), first_end)
    if not trace.is_import and (missing := {finding.frame for finding in findings} - places.keys()):
        places |= places_of(trace, missing)
    more = tuple(repeated for repeated in observer.more if selection.takes(repeated.rule))
    return JudgedTrace(
        trace.path,
        complete,
        observer.revision,
        frames,
        tuple(findings),
        notes,
        more=more,
        journal_fault=trace.journal_fault,
        places={} if trace.is_import else places,
        calls=calls,
        waiting_ns=waiting_ns,
        not_begun=failed_start,
        not_judged=unjudged,
    )


def _calls_so_far(trace: Trace) -> tuple[CallCounts, int | None]:
    """Count the calls of a trace whose close record, the last one, is missing or has no counts (``tally``).

    Such a trace is still growing, was cut off, or is an import. The second value is ``waiting_ns`` of a
    ``JudgedTrace``.
    """
    from mcpproxy.read.view.index.indexed_trace import IndexedTrace  # most recordings have a close record
    from mcpproxy.read.view.summaries import call_outcomes, oldest_unanswered_ns

    index = IndexedTrace(trace)
    index.read()
    index.source.close()
    since_ns = oldest_unanswered_ns(index.columns) if trace.is_recording else None
    waiting_ns = None if since_ns is None else index.now_ns() - since_ns
    return count_calls(call_outcomes(index.columns)), waiting_ns


def places_of(trace: Trace, wanted: set[int]) -> dict[int, tuple[str, int]]:
    """Read the trace again, and return the file and line of each frame whose number is in ``wanted``.

    ``judge`` keeps the place of each frame whose judging gave a finding, but a finding may be about an
    earlier frame.
    """
    places: dict[int, tuple[str, int]] = {}
    for event in trace.events():
        if isinstance(event, Frame | RequestHead | ResponseHead) and event.seq in wanted:
            places[event.seq] = trace.place
            if len(places) == len(wanted):
                break
    return places
