"""Report findings as text, one line each as a linter does: ``path:line: error PROTO-007 frame 12: ...``."""

import os
import shlex
from collections.abc import Iterator, Sequence

from mcpproxy.base.paths import inside
from mcpproxy.base.style import PLAIN, Style, count, duration, tally
from mcpproxy.base.visible import visible
from mcpproxy.judge.session.folding import fold
from mcpproxy.judge.session.frame import WORST_FIRST, Finding
from mcpproxy.judge.session.outcomes import sum_counts
from mcpproxy.read.reports.judged_traces import JudgedTrace, JudgedTraces, NamedHost, host_of, more_text


def lines(verdict: JudgedTraces, style: Style = PLAIN, *, base: str = "") -> Iterator[str]:
    """Yield the lines of a whole run: those of every trace, then the summary.

    Paths inside the folder ``base`` are relative to it.
    """
    for trace in verdict.traces:
        yield from trace_lines(trace, style, base=base, hosts=verdict.hosts)
    yield from summary_lines(verdict, style)


def trace_lines(
    trace: JudgedTrace, style: Style = PLAIN, *, base: str = "", hosts: tuple[NamedHost, ...] = ()
) -> Iterator[str]:
    """Yield the findings of one trace, each with its source, then the notes on missing or unjudged parts.

    Findings about the ``hosts`` that the user named are left out, because the matrix at the end of the run
    has them. Several findings that say the same are shown once, with a count. Paths inside the folder
    ``base`` are relative to it.
    """
    in_matrix = {id for id, _, _ in hosts}
    for folded in fold(finding for finding in trace.findings if host_of(finding) not in in_matrix):
        yield from finding_lines(trace, folded.first, style, base=base)
        if folded.others:
            yield style.paint(f"    {visible(folded.count_text)}", "dim")
    path = visible(inside(trace.path, base))
    for repeated in trace.more:
        yield f"{style.paint(path + ':', 'bold')} {visible(more_text(repeated))}"
    incomplete = "" if trace.is_whole_so_far else f"{style.paint('incomplete', 'yellow')}: "
    for note in trace.notes:
        yield f"{style.paint(path + ':', 'bold')} {incomplete}{visible(note)}"
    if trace.not_judged:
        yield f"{style.paint(path + ':', 'bold')} {trace.not_judged}"


def finding_lines(
    trace: JudgedTrace, finding: Finding, style: Style = PLAIN, *, base: str = ""
) -> Iterator[str]:
    """Yield the lines of one finding: its place in the recording and its text, and then its evidence.

    ``base`` is as for ``trace_lines``.
    """
    path, line = trace.places.get(finding.frame, (trace.path, 0))
    place = f"{visible(inside(path, base))}:{line}:" if line else f"{visible(inside(path, base))}:"
    yield f"{style.paint(place, 'bold')} {finding_line(finding, style, in_frame=True)}"
    if evidence := _evidence(finding):
        yield style.paint(f"    {evidence}", "dim")


def finding_line(finding: Finding, style: Style = PLAIN, *, in_frame: bool = False) -> str:
    """Return one finding without its place: severity, rule, peer at fault, what happened.

    With ``in_frame`` the line has the number of the frame, if the finding is about a frame.
    """
    message = visible(finding.message)
    # Most messages begin with the peer at fault, which then needs no prefix.
    words = message if message.startswith(f"{finding.blame} ") else f"{finding.blame}: {message}"
    frame = f"frame {finding.frame}: " if in_frame and finding.frame else ""
    return f"{finding_head(finding, style)} {frame}{words}"


def finding_head(finding: Finding, style: Style = PLAIN) -> str:
    """Return the beginning of the line of a finding: the severity and the rule."""
    return f"{style.severity(finding.severity)} {style.paint(visible(finding.rule), 'bold')}"


def _evidence(finding: Finding) -> str:
    """Return the place in the message, the related frames, and the URL of the requirement."""
    parts = [f"at {visible(finding.pointer)}"] if finding.pointer else []
    if finding.related:
        noun = "frame" if len(finding.related) == 1 else "frames"
        parts.append(f"see {noun} {', '.join(map(str, finding.related))}")
    if finding.source:
        parts.append(visible(finding.source))
    return "  ".join(parts)


def summary_lines(verdict: JudgedTraces, style: Style = PLAIN) -> Iterator[str]:
    """Yield the counts of traces, frames and findings, what could not be judged, and the next step.

    The failed calls and, if the user named hosts, the matrix of hosts are there, too. Yield nothing if no
    trace could be judged: the caller tells the user why.
    """
    if not verdict.traces:
        return
    counts = tally(verdict.counts["error"], verdict.counts["warning"], verdict.counts["info"])
    if all(trace.not_begun or trace.not_judged for trace in verdict.traces):
        counts = "nothing to judge"
    if verdict.known:
        counts += f", {verdict.known} known"
    colour = "red" if verdict.exit_code else "green"
    judged = f"{count(len(verdict.traces), 'trace')}, {count(verdict.frames, 'frame')}"
    revisions = sorted({trace.revision for trace in verdict.traces if trace.revision})
    if len(revisions) == 1:
        judged += f", revision {visible(revisions[0])}"
    yield f"{style.paint(counts, 'bold', colour)} in {judged}"
    yield from _incomplete_lines(verdict.traces)
    if verdict.unjudged:
        yield f"{count(len(verdict.unjudged), 'trace')} could not be judged."
    yield from _failure_lines(verdict.traces)
    findings = [finding for trace in verdict.traces for finding in trace.findings]
    if worst := min(findings, key=lambda finding: WORST_FIRST.index(finding.severity), default=None):
        rules = "".join(f" --rules {_quoted(folder)}" for folder in verdict.folders)
        yield style.paint(f"What a rule means: mcpproxy explain {visible(worst.rule)}{rules}", "dim")
    if verdict.hosts:
        from mcpproxy.read.reports import host_matrix

        yield ""
        yield from host_matrix.lines(host_matrix.rows_of_run(verdict), style)


def _incomplete_lines(traces: Sequence[JudgedTrace]) -> Iterator[str]:
    """Yield sentences about incomplete and running recordings, which were judged only in part."""
    running = sum(trace.running for trace in traces)
    incomplete = sum(not (trace.complete or trace.is_whole_so_far) for trace in traces)
    for number, singular, plural, what in (
        (incomplete, "is incomplete", "are incomplete", "what was not recorded was not judged"),
        (running, "goes on", "go on", "what comes after this was not judged"),
    ):
        subject = "The recording" if len(traces) == 1 else f"{count(number, 'recording')} of them"
        if number:
            yield f"{subject} {singular if number == 1 else plural}: {what}."


def _failure_lines(traces: Sequence[JudgedTrace]) -> Iterator[str]:
    """Yield sentences about failed servers and calls.

    These are no findings, but users expect them in a report.
    """
    if not_begun := [trace for trace in traces if trace.not_begun]:
        several = f"{len(not_begun):,} servers could not be started, or failed before any message"
        yield (several if len(not_begun) > 1 else not_begun[0].not_begun) + _command_suffix(not_begun)
    for running in (False, True):
        counted = [trace for trace in traces if (trace.waiting_ns is not None) is running]
        calls = sum_counts(trace.calls for trace in counted if trace.calls)
        if not calls.all_successful:
            waited = duration(max(trace.waiting_ns or 0 for trace in counted)) if running else ""
            yield calls.words(running=running, waited=waited) + _command_suffix(counted)


def _command_suffix(traces: Sequence[JudgedTrace]) -> str:
    """Return the command that shows the failures in these recordings; empty if no single command does."""
    paths = [trace.path for trace in traces]
    if len(paths) == 1:
        return f": mcpproxy show {_quoted(paths[0])}"
    folders = {os.path.dirname(path) for path in paths}
    return f": mcpproxy list {_quoted(folders.pop() or '.')} --failed" if len(folders) == 1 else ""


def _quoted(path: str) -> str:
    return visible(shlex.quote(path))
