"""One of a thing is said in the singular."""

import pytest

from mcpproxy.reports.validation import summary
from mcpproxy.validate import passive
from mcpproxy.validate.outcome import CheckResult, Conclusion, Validation


@pytest.mark.parametrize(("warnings", "expected"), [(0, "0 warnings"), (1, "1 warning"), (2, "2 warnings")])
def test_the_summary_counts_warnings(warnings: int, expected: str) -> None:
    check = CheckResult("a", "sequence", Conclusion("warning", "what"), 0)
    run = Validation("srv", "stdio", {}, ("2025-11-25",), (check,) * warnings, ())
    assert f" {expected}," in next(iter(summary(run))) + ","


@pytest.mark.parametrize(("frames", "expected"), [(1, "in 1 frame"), (2, "in 2 frames")])
def test_rules_that_held_count_frames(frames: int, expected: str) -> None:
    for check in passive.checks([], frames, "2025-11-25", {"PROTO-007": "n"}):
        assert check.conclusion.message == f"1 rule (PROTO) held {expected}"
