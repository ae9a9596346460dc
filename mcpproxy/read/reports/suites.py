"""Report ``mcpproxy check`` as tests: a suite for each recording, a case for each rule with findings.

A case has the name of its rule, so that a build server can follow it across runs. It fails if the rule has
findings that count. Findings that do not count (warnings unless strict, findings of severity ``info``,
accepted findings) are listed in the notes of the suite. A recording without findings has one case. It passes,
unless the server failed before any message (an error), or the recording is of a kind that is not judged
(skipped).
"""

from collections.abc import Iterator

from mcpproxy.base.visible import visible
from mcpproxy.judge.session.frame import Finding
from mcpproxy.protocol.rules import Catalogue
from mcpproxy.read.reports import text
from mcpproxy.read.reports.judged_traces import JudgedTrace, JudgedTraces, more_text
from mcpproxy.read.reports.junit import Case, Suite


def suites(verdict: JudgedTraces, catalogue: Catalogue) -> Iterator[Suite]:
    """Yield a suite for each recording, with an error if it could not be judged, and one for the hosts."""
    for trace in verdict.traces:
        yield Suite(trace.path, tuple(_cases(trace, verdict, catalogue)), tuple(_notes(trace, verdict)))
    for unjudged in verdict.unjudged:
        case = Case(
            _classname(unjudged.path),
            "can be judged",
            status="error",
            message=unjudged.reason,
            kind="unreadable",
        )
        yield Suite(unjudged.path, (case,))
    if verdict.hosts:
        from mcpproxy.read.reports import host_matrix

        yield host_matrix.suite(host_matrix.rows_of_run(verdict), host_matrix.failing_in(verdict))


def _cases(trace: JudgedTrace, verdict: JudgedTraces, catalogue: Catalogue) -> Iterator[Case]:
    """Yield a case for each rule with findings in ``trace``.

    Yield another first if the server did not begin, the trace was not judged, or there are no findings.
    """
    rules = sorted(
        {finding.rule for finding in (*trace.findings, *(located.finding for located in trace.known))}
    )
    if trace.not_begun:
        yield Case(
            _classname(trace.path),
            "the server begins",
            status="error",
            message=trace.not_begun,
            kind="failed before any message",
        )
    elif trace.not_judged:
        yield Case(_classname(trace.path), "not judged", status="skipped", message=trace.not_judged)
    elif not rules:
        yield Case(_classname(trace.path), "no findings")
    for code in rules:
        rule = catalogue.rules.get(code)
        name = f"{code} {rule.name}" if rule else code
        counting = [f for f in trace.findings if f.rule == code and verdict.does_count(f)]
        yield _case(trace, name, counting) if counting else Case(_classname(trace.path), name)


def _case(trace: JudgedTrace, name: str, findings: list[Finding]) -> Case:
    first_finding = findings[0]
    others = (
        len(findings)
        - 1
        + sum(repeated.count for repeated in trace.more if repeated.rule == first_finding.rule)
    )
    suffix = f" ({others} more)" if others else ""
    texts = [line for finding in findings for line in text.finding_lines(trace, finding)]
    return Case(
        _classname(trace.path),
        name,
        status="failed",
        message=f"{first_finding.message}{suffix}",
        text="\n".join(texts),
        kind=first_finding.severity,
    )


def _notes(trace: JudgedTrace, verdict: JudgedTraces) -> Iterator[str]:
    """Yield the notes on the recording, and the findings that were only counted or do not count."""
    for note in trace.notes:
        yield f"{visible(trace.path)}: incomplete: {visible(note)}"
    for repeated in trace.more:
        yield f"{visible(trace.path)}: {visible(more_text(repeated))}"
    for finding in trace.findings:
        if not verdict.does_count(finding):
            yield from text.finding_lines(trace, finding)
    for located in trace.known:
        line = next(iter(text.finding_lines(trace, located.finding)))
        why = f": {visible(located.why)}" if located.why else ""
        yield f"{line} (known{why})"


def _classname(path: str) -> str:
    """Return the path without its suffix, which build servers would show as the name of a class."""
    return path.removesuffix(".jsonl")
