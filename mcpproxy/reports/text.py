"""Findings as a linter prints them: ``path:frame: error PROTO-007 server: what happened``."""

from collections.abc import Iterator

from mcpproxy.base.style import PLAIN, Style, count, tally
from mcpproxy.base.visible import visible
from mcpproxy.reports.judged_traces import JudgedTrace, JudgedTraces, more_text
from mcpproxy.session.frame import Finding


def lines(verdict: JudgedTraces, style: Style = PLAIN) -> Iterator[str]:
    """Return the lines of the whole run: every trace, then the summary."""
    for trace in verdict.traces:
        yield from trace_lines(trace, style)
    yield from summary_lines(verdict, style)


def trace_lines(trace: JudgedTrace, style: Style = PLAIN) -> Iterator[str]:
    """Return the findings of one trace, each with its source, then what is missing from the recording."""
    for finding in trace.findings:
        yield from finding_lines(trace.path, finding, style)
    path = visible(trace.path)
    for repeated in trace.more:
        yield f"{style.paint(path + ':', 'bold')} {visible(more_text(repeated))}"
    for note in trace.notes:
        yield f"{style.paint(path + ':', 'bold')} {style.paint('incomplete', 'yellow')}: {visible(note)}"


def finding_lines(path: str, finding: Finding, style: Style = PLAIN) -> Iterator[str]:
    """Return the lines of one finding: its place in the recording ``path``, and its evidence."""
    path = visible(path)
    where = style.paint(f"{path}:{finding.frame}:" if finding.frame else f"{path}:", "bold")
    yield f"{where} {finding_line(finding, style)}"
    if evidence := _evidence(finding):
        yield style.paint(f"    {evidence}", "dim")


def finding_line(finding: Finding, style: Style = PLAIN) -> str:
    """Return one finding without its place: severity, rule, peer at fault, what happened."""
    message = visible(finding.message)
    # Most messages begin with the peer at fault; it is not printed twice.
    words = message if message.startswith(f"{finding.blame} ") else f"{finding.blame}: {message}"
    return f"{finding_head(finding, style)} {words}"


def finding_head(finding: Finding, style: Style = PLAIN) -> str:
    """Return the severity and the rule."""
    return f"{style.severity(finding.severity)} {style.paint(visible(finding.rule), 'bold')}"


def _evidence(finding: Finding) -> str:
    """Return the place in the message, the related frames, and the sentence of the specification."""
    parts = [f"at {visible(finding.pointer)}"] if finding.pointer else []
    if finding.related:
        noun = "frame" if len(finding.related) == 1 else "frames"
        parts.append(f"see {noun} {', '.join(map(str, finding.related))}")
    if finding.source:
        parts.append(visible(finding.source))
    return "  ".join(parts)


def summary_lines(verdict: JudgedTraces, style: Style = PLAIN) -> Iterator[str]:
    """Return what was judged, what was found, and the next step if there is one."""
    found = tally(verdict.counts["error"], verdict.counts["warning"], verdict.counts["info"])
    if verdict.known:
        found += f", {verdict.known} known"
    colour = "red" if verdict.exit_code else "green"
    judged = f"{count(len(verdict.traces), 'trace')}, {count(verdict.frames, 'frame')}"
    revisions = sorted({trace.revision for trace in verdict.traces if trace.revision})
    if len(revisions) == 1:
        judged += f", revision {visible(revisions[0])}"
    yield f"{style.paint(found, 'bold', colour)} in {judged}"
    if incomplete := sum(not trace.complete for trace in verdict.traces):
        which = (
            "The recording is" if len(verdict.traces) == 1 else f"{count(incomplete, 'recording')} of them"
        )
        verb = "" if len(verdict.traces) == 1 else " is" if incomplete == 1 else " are"
        yield f"{which}{verb} incomplete: what was not recorded was not judged."
    if verdict.unjudged:
        yield f"{count(len(verdict.unjudged), 'trace')} could not be judged."
    if first := next((f for trace in verdict.traces for f in trace.findings), None):
        yield style.paint(f"What a rule means: mcpproxy explain {visible(first.rule)}", "dim")
