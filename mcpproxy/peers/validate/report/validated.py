"""Converts a validation for the reports of build servers: to findings with places, and suites of test cases.

A check that failed or gave a warning becomes a finding of its rule. If the check has no rule, its name is
used instead.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from mcpproxy.base.visible import visible
from mcpproxy.errors import TraceError
from mcpproxy.judge.session.frame import Finding, Severity
from mcpproxy.peers.validate.outcome import CheckResult, Status, Validation
from mcpproxy.peers.validate.report import validation as text
from mcpproxy.read.opening import open_trace
from mcpproxy.read.reports.baseline import Baseline
from mcpproxy.read.reports.junit import Case, Suite
from mcpproxy.read.reports.located import Located, Remark, locate

_SEVERITY: Final[dict[Status, Severity]] = {"failed": "error", "warning": "warning"}
"""Status of a check -> the severity of its finding. Checks with another status have none."""


def is_bad(check: CheckResult) -> bool:
    """Whether a check failed or gave a warning."""
    return check.status in _SEVERITY


def located(checks: tuple[CheckResult, ...]) -> tuple[Located, ...]:
    """Return the checks that failed or gave a warning as findings with places, in the same order."""
    bad = [check for check in checks if is_bad(check)]
    by_check: dict[int, Located] = {}
    for path in dict.fromkeys(check.trace for check in bad):
        in_trace = [check for check in bad if check.trace == path]
        for check, finding in zip(in_trace, _located_in(path, in_trace), strict=True):
            by_check[id(check)] = replace(finding, is_known=check.is_known)
    return tuple(by_check[id(check)] for check in bad)


def marked(validation: Validation, accepted: Baseline) -> Validation:
    """Return the validation with the ``accepted`` findings marked as known."""
    unmarked = tuple(replace(check, is_known=False) for check in validation.checks)
    marked_findings = iter(accepted.marked(located(unmarked)))  # one for each bad check, in their order
    checks = tuple(
        replace(check, is_known=next(marked_findings).is_known) if is_bad(check) else check
        for check in unmarked
    )
    return replace(validation, checks=checks)


def was_tried(validation: Validation, is_rule: Callable[[str], bool]) -> Callable[[str], bool]:
    """Return a function that says whether a rule, or a check without a rule, was tried.

    It gets the code of the rule or the name of the check; ``is_rule`` says which of the two a text is.
    An entry of a baseline, the user's file of accepted results, counts as fixed only if its rule or check was
    tried.
    """
    tried = {code for check in validation.checks if check.status != "skipped" for code in check.rules}
    names = {check.name for check in validation.checks if check.status != "skipped"}
    return lambda code: code in tried if is_rule(code) else code in names


def remarks(validation: Validation) -> tuple[Remark, ...]:
    """Return the remarks on the run: its notes, the failures of mcpproxy, and why it is undecided.

    They are remarks on the first recording; without a recording there are none.
    """
    if not validation.traces:
        return ()
    path = validation.traces[0].path
    undecided = (*validation.faults, *filter(None, [validation.untested]))
    return (
        *(Remark(path, note, "note") for note in validation.notes),
        *(Remark(path, why, "not judged") for why in undecided),
    )


def suites(validation: Validation) -> Iterator[Suite]:
    """Yield a suite per revision and a case per check.

    Checks that failed or gave a warning, but do not count, are in the notes of the suite.
    """
    tested = str((validation.server or validation.client).get("name") or validation.target)
    for revision in dict.fromkeys(check.revision for check in validation.checks):
        checks = [check for check in validation.checks if check.revision == revision]
        notes = [
            line
            for check in checks
            if is_bad(check) and not validation.does_count(check)
            for line in text.check_lines(check)
        ]
        cases = tuple(_case(validation, check) for check in checks)
        yield Suite(f"{tested} {revision}".strip(), cases, (*notes, *map(visible, validation.notes)))


def _case(validation: Validation, check: CheckResult) -> Case:
    classname = f"{check.category} ({check.revision})"
    seconds = check.duration_ms / 1e3
    message = check.conclusion.message
    if check.status == "skipped":
        return Case(classname, check.name, seconds, status="skipped", message=message)
    if not validation.does_count(check):
        return Case(classname, check.name, seconds)
    return Case(
        classname,
        check.name,
        seconds,
        status="failed",
        message=message,
        text="\n".join(text.check_lines(check)),
        kind=_SEVERITY[check.status],
    )


def _finding(check: CheckResult) -> Finding:
    conclusion = check.conclusion
    frame, *related = conclusion.frames or (0,)
    rule = conclusion.rule or check.name
    message = conclusion.message if conclusion.rule else f"{check.name}: {conclusion.message}"
    return Finding(
        rule,
        _SEVERITY[check.status],
        check.blame,
        message,
        frame,
        tuple(related),
        revision=check.revision or None,
        source=conclusion.source,
    )


def _located_in(path: str, checks: list[CheckResult]) -> tuple[Located, ...]:
    """Return checks as findings with places in the recording ``path``; without places if it is unreadable."""
    findings = [_finding(check) for check in checks]
    try:
        places = locate(open_trace(path), findings) if path else None
    except TraceError:
        places = None
    if places is None:
        places = tuple(Located(finding, path or ".", 0, fingerprint=finding.rule) for finding in findings)
    # The requirement is added after the fingerprint is computed: baselines hold fingerprints without it.
    return tuple(
        replace(place, finding=replace(place.finding, requirement=check.conclusion.requirement))
        for place, check in zip(places, checks, strict=True)
    )
