"""Faults planted in a client that was written from the specification: each is found, with its sentence."""

import json
import sys
from pathlib import Path

import pytest

from tests.client_tests.test_validate_client import LIMIT, Outcome, statuses

HTTP = ("--listen=127.0.0.1:0",)


def from_the_text(flaw: str) -> tuple[str, ...]:
    return (sys.executable, str(Path(__file__).parent / "spec_client.py"), flaw)


PLANTED = [
    ("no-jsonrpc", "PROTO-002"),
    ("no-client-info", "PROTO-001"),
    ("latin-1", "RPC-021"),
    ("line-breaks", "STDIO-001"),
    ("cancels-initialize", "CANC-003"),
    ("initialized-as-request", "RPC-013"),
    ("token-twice", "PROG-002"),
]
"""Flaws that the ordinary server sees, with the rule that each breaks."""

PLANTED_ELSEWHERE = {
    "ping-in-call": ("null-result", "RPC-010"),
    "list-changed": ("answers-notifications", "PROTO-007"),
    "unknown-request": ("code-as-text", "RPC-011"),
    "asks-in-call": ("root-at-url", "ROOT-001"),
}
"""Flaws that only another server sees."""

PLANTED_OVER_HTTP = [
    ("accepts-json-only", "HTTP-005"),
    ("batch", "RPC-017"),
    ("no-revision-header", "PROTO-008"),
    ("forgets-session", "PROTO-010"),
]


def found(outcome: Outcome) -> list[tuple[str, str]]:
    """What failed: names of scenarios with the rule, each of which has its sentence and frames."""
    failed = [check for check in json.loads(outcome.out)["checks"] if check["status"] == "failed"]
    assert all(check["source"].startswith("https://") and check["frames"] for check in failed)
    return [(check["name"], check["broken"]) for check in failed]


@pytest.mark.parametrize(("flaw", "rule"), PLANTED)
def test_a_fault_on_stdio(capsys: pytest.CaptureFixture[str], tmp_path: Path, flaw: str, rule: str) -> None:
    options = ("--json", "--only=ordinary", f"--timeout={LIMIT}", "--")
    outcome = Outcome(capsys, tmp_path, *options, *from_the_text(flaw))
    assert found(outcome) == [("ordinary", rule)]


def test_faults_that_other_servers_see(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    options = ("--json", f"--only={','.join(PLANTED_ELSEWHERE)}", f"--timeout={LIMIT}", "--")
    flaws = ",".join(f"{server}:{flaw}" for server, (flaw, _) in PLANTED_ELSEWHERE.items())
    outcome = Outcome(capsys, tmp_path, *options, *from_the_text(flaws))
    assert dict(found(outcome)) == {server: rule for server, (_, rule) in PLANTED_ELSEWHERE.items()}


def test_a_fault_in_an_answer(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    options = ("--json", "--only=asks-in-call", f"--timeout={LIMIT}", "--")
    outcome = Outcome(capsys, tmp_path, *options, *from_the_text("elicits-maybe"))
    assert found(outcome) == [("asks-in-call", "ELIC-005")]


@pytest.mark.parametrize(("flaw", "rule"), PLANTED_OVER_HTTP)
def test_a_fault_over_http(capsys: pytest.CaptureFixture[str], tmp_path: Path, flaw: str, rule: str) -> None:
    options = ("--json", *HTTP, "--only=ordinary", f"--timeout={LIMIT}", "--")
    outcome = Outcome(capsys, tmp_path, *options, *from_the_text(flaw))
    assert found(outcome) == [("ordinary", rule)]


def test_a_client_that_begins_another_session_may_leave_out_the_id_of_the_last(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    options = ("--json", *HTTP, "--only=lost-session", f"--timeout={LIMIT}", "--")
    outcome = Outcome(capsys, tmp_path, *options, *from_the_text("begins-anew"))
    assert statuses(outcome) == {"ordinary": "passed", "lost-session": "passed"}


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux says how long a process waits for a processor"
)
def test_a_client_that_is_slow_is_waited_for(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    options = ("--json", "--only=ordinary", "--timeout=2", "--")
    outcome = Outcome(capsys, tmp_path, *options, *from_the_text("computes"))
    assert statuses(outcome) == {"ordinary": "passed"}
    told = [check["name"] for check in json.loads(outcome.out)["checks"]]
    assert "stays (behaviour)" not in told


def test_sessions_of_a_client_are_told_apart(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    options = ("--json", "--only=error-without-id", f"--timeout={LIMIT}", "--")
    outcome = Outcome(capsys, tmp_path, *options, *from_the_text("starts-twice"))
    told = {check["name"]: check["message"] for check in json.loads(outcome.out)["checks"]}
    assert told["error-without-id"] == "7 messages judged"
    assert "error-without-id (behaviour)" not in told  # the call is answered in the second session
