"""One of a thing is said in the singular."""

import pytest

from mcpproxy.validate import passive
from mcpproxy.validate.outcome import CheckResult, Conclusion, Validation
from mcpproxy.validate.report.validation import summary


@pytest.mark.parametrize(("warnings", "expected"), [(0, "0 warnings"), (1, "1 warning"), (2, "2 warnings")])
def test_the_summary_counts_warnings(warnings: int, expected: str) -> None:
    check = CheckResult("a", "sequence", Conclusion("warning", "what"), 0)
    run = Validation("srv", "stdio", {}, ("2025-11-25",), (check,) * warnings, ())
    assert f" {expected}," in next(iter(summary(run))) + ","


@pytest.mark.parametrize(("messages", "expected"), [(1, "1 message"), (2, "2 messages")])
def test_rules_that_were_kept_count_messages(messages: int, expected: str) -> None:
    (check,) = passive.checks([], {passive.CATEGORY_OF["PROTO"]: messages}, "2025-11-25", {"PROTO-007": "n"})
    assert check.conclusion.message == f"{expected} kept 1 rule (PROTO)"
