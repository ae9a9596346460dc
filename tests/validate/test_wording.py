"""One of a thing is said in the singular."""

from dataclasses import replace

import pytest

from mcpproxy.peers.validate import passive
from mcpproxy.peers.validate.outcome import CheckResult, Conclusion, Status, Validation
from mcpproxy.peers.validate.report import validation
from mcpproxy.peers.validate.report.validation import MARKS_IN_LINE, summary_line
from mcpproxy.protocol.rules import Catalogue


def one(status: Status, name: str = "a") -> CheckResult:
    return CheckResult(name, "sequence", Conclusion(status, "what"), 0)


def ran(*checks: CheckResult, revisions: tuple[str, ...] = ("2025-11-25",), took_ms: float = 0) -> Validation:
    return Validation("srv", "stdio", {}, revisions, checks, (), duration_ms=took_ms)


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        (("passed",), "valid: 1 passed"),
        (("warning",), "valid: 1 warning, 0 passed"),
        (("warning", "skipped", "warning"), "valid: 2 warnings, 0 passed, 1 skipped"),
        (("passed", "failed"), "invalid: 1 failed, 1 passed"),
        (("info", "warning", "info"), "valid: 1 warning, 2 info, 0 passed"),
    ],
)
def test_the_summary_counts(statuses: tuple[Status, ...], expected: str) -> None:
    assert summary_line(ran(*map(one, statuses))) == expected
    assert summary_line(ran(*map(one, statuses), took_ms=3902)) == f"{expected} in 3.90 s"


def test_marks_are_on_lines_of_the_same_length() -> None:
    checks = [replace(one("passed"), revision="2025-11-25")] * (2 * MARKS_IN_LINE)
    checks.append(replace(one("skipped"), revision="2025-11-25"))
    run = ran(*checks)
    _, first, second, third, *_ = validation.lines(run, Catalogue({}, {}))
    assert first == f"2025-11-25 on stdio  {'.' * MARKS_IN_LINE}"
    assert second == f"{' ' * 21}{'.' * MARKS_IN_LINE}"
    assert third == f"{' ' * 21}s"


def test_what_counts_comes_last_and_alone_if_little_is_wanted() -> None:
    run = ran(one("failed", "b"), one("warning", "a"), one("info", "c"))
    lines = list(validation.lines(run, Catalogue({}, {})))
    assert [line for line in lines if line.endswith(": what")] == [
        "info  c: what",
        "warn  a: what",
        "FAIL  b: what",
    ]
    little = list(validation.lines(run, Catalogue({}, {}), detail="failures"))
    assert little == ["FAIL  b: what", "", "invalid: 1 failed, 1 warning, 1 info, 0 passed"]


@pytest.mark.parametrize(("messages", "expected"), [(1, "1 message"), (2, "2 messages")])
def test_rules_that_were_kept_count_messages(messages: int, expected: str) -> None:
    (check,) = passive.rule_checks(
        [], {passive.CATEGORY_OF["PROTO"]: messages}, "2025-11-25", {"PROTO-007": "n"}
    )
    assert check.conclusion.message == f"{expected} kept 1 rule (PROTO)"
