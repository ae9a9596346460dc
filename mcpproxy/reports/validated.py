"""Convert a validation for the reports to build servers: findings with places, suites of cases.

A check that failed or gave a warning is a finding of its rule. Without a rule, the name of the check stands
for it.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from mcpproxy.base.visible import visible
from mcpproxy.errors import TraceError
from mcpproxy.opening import open_trace
from mcpproxy.reports import validation as text
from mcpproxy.reports.baseline import Baseline
from mcpproxy.reports.junit import Case, Suite
from mcpproxy.reports.located import Located, Remark, locate
from mcpproxy.session.frame import Finding, Severity
from mcpproxy.validate.outcome import CheckResult, Status, Validation

_SEVERITY: Final[dict[Status, Severity]] = {"failed": "error", "warning": "warning"}


def is_bad(check: CheckResult) -> bool:
    """Whether a check is to be reported."""
    return check.status in _SEVERITY


def located(checks: tuple[CheckResult, ...]) -> tuple[Located, ...]:
    """Return the bad ones of ``checks`` as findings with places, in the same order."""
    bad = [check for check in checks if is_bad(check)]
    found: dict[int, Located] = {}
    for path in dict.fromkeys(check.trace for check in bad):
        here = [check for check in bad if check.trace == path]
        for check, one in zip(here, _located(path, [_finding(check) for check in here]), strict=True):
            found[id(check)] = replace(one, is_known=check.is_known)
    return tuple(found[id(check)] for check in bad)


def marked(validation: Validation, accepted: Baseline) -> Validation:
    """Return the validation with the ``accepted`` findings marked as known."""
    plain = tuple(replace(check, is_known=False) for check in validation.checks)
    known = iter(accepted.marked(located(plain)))
    checks = tuple(
        replace(check, is_known=next(known).is_known) if is_bad(check) else check for check in plain
    )
    return replace(validation, checks=checks)


def was_tried(validation: Validation, is_rule: Callable[[str], bool]) -> Callable[[str], bool]:
    """Return a test whether a rule, or a check without a rule, was tried; only then can it be fixed."""
    tried = {code for check in validation.checks if check.status != "skipped" for code in check.rules}
    names = {check.name for check in validation.checks if check.status != "skipped"}
    return lambda code: code in tried if is_rule(code) else code in names


def remarks(validation: Validation) -> tuple[Remark, ...]:
    """Return the remarks on the run: what was not done, and what failed in mcpproxy itself."""
    notes = (*validation.notes, *validation.faults, *filter(None, [validation.untested]))
    return tuple(Remark(validation.traces[0].path, note) for note in notes if validation.traces)


def suites(validation: Validation) -> Iterator[Suite]:
    """Return a suite per revision and a case per check; warnings that do not count are listed beside them."""
    server = str(validation.server.get("name") or validation.target)
    for revision in dict.fromkeys(check.revision for check in validation.checks):
        checks = [check for check in validation.checks if check.revision == revision]
        notes = [
            line
            for check in checks
            if is_bad(check) and not validation.does_count(check)
            for line in text.check_lines(check)
        ]
        cases = tuple(_case(validation, check) for check in checks)
        yield Suite(f"{server} {revision}".strip(), cases, (*notes, *map(visible, validation.notes)))


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
        text="\n".join(line.strip() for line in text.check_lines(check)),
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
        "server",
        message,
        frame,
        tuple(related),
        revision=check.revision or None,
        source=conclusion.source,
    )


def _located(path: str, findings: list[Finding]) -> tuple[Located, ...]:
    if path:
        try:
            return locate(open_trace(path), findings)
        except TraceError:
            pass  # the findings are reported without places
    return tuple(Located(finding, path or ".", 0, fingerprint=finding.rule) for finding in findings)
