"""What is lawful is not blamed, and what was not seen is not judged."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mcpproxy.peers.validate import passive
from mcpproxy.peers.validate.errors import CouldNotStartError
from mcpproxy.peers.validate.outcome import Status, Validation
from mcpproxy.peers.validate.probe import Probe
from mcpproxy.peers.validate.probe_context import ProbeContext, ValidateOptions
from mcpproxy.peers.validate.probes import PROBES, chosen
from mcpproxy.peers.validate.recordings import Recordings
from mcpproxy.peers.validate.runner import validate
from tests.validate.trial import check, rules, target, tried


def blamed(result: Validation) -> dict[str, str]:
    """What failed or gave a warning: names and messages."""
    return told(result, "failed", "warning")


def told(result: Validation, *statuses: Status) -> dict[str, str]:
    """The checks with these statuses: names and messages."""
    return {one.name: one.conclusion.message for one in result.checks if one.status in statuses}


@pytest.mark.parametrize(
    ("flaw", "revision"),
    [
        ("declares-nothing", "2025-11-25"),
        ("declares-nothing", "2026-07-28"),
        ("takes-json-without-line-feed", "2025-11-25"),
        ("completes-templates-alone", "2025-11-25"),
    ],
)
def test_a_lawful_server_is_not_blamed(flaw: str, revision: str, tmp_path: Path) -> None:
    # Who does not look for line feeds finds malformed JSON and the message after it to be one.
    left_out = ("malformed-json", "stdout") if flaw == "takes-json-without-line-feed" else ()
    result = tried(target(flaw), tmp_path, chosen(skip=left_out), revision)
    assert blamed(result) == {}
    assert result.is_valid
    assert result.faults == ()


ALONE = (
    "a second process of the server says nothing while the first one runs, so the checks run one at a time"
)


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_a_server_may_lock_its_data(revision: str, tmp_path: Path) -> None:
    result = tried(target("locks-its-data", DATA=str(tmp_path / "data")), tmp_path, (), revision)
    assert blamed(result) == {}
    assert result.notes.count(ALONE) == 1
    assert not [one for one in result.checks if one.name == "restart" and one.status != "passed"]


def test_a_second_process_that_never_runs_is_not_excused(tmp_path: Path) -> None:
    server = target("starts-once", DATA=str(tmp_path / "data"))
    result = tried(server, tmp_path, ("ping", "restart"))
    assert "restart" in blamed(result)
    assert ALONE not in result.notes


def test_a_server_without_prompts_completes_its_templates(tmp_path: Path) -> None:
    result = tried(target("completes-templates-alone"), tmp_path, ("complete",))
    assert check(result, "complete").conclusion.message == "answered"


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_a_limit_of_requests_is_told_once_and_blames_nobody(revision: str, tmp_path: Path) -> None:
    result = tried(target("tires-of-requests"), tmp_path, (), revision)
    assert blamed(result) == {}
    assert result.is_valid
    skipped = [
        one for one in result.checks if one.conclusion.message.startswith("the server refuses so many")
    ]
    assert skipped
    [note] = result.notes
    assert note.endswith('because there were too many: "Rate limit exceeded"')


def test_the_refusal_of_our_own_malformed_line_is_no_answer_to_the_next_request(tmp_path: Path) -> None:
    result = tried(target("names-what-it-cannot-read"), tmp_path, ("stdout", "malformed-json"))
    assert check(result, "stdout").status == "passed", check(result, "stdout").conclusion
    assert check(result, "malformed-json").conclusion.message == "refused with -32700"


@pytest.mark.parametrize(("flaw", "is_cause"), [("traceback-on-stdout", True), ("farewell-on-stdout", False)])
def test_a_malformed_line_is_named_as_the_cause_of_what_comes_at_once(
    flaw: str, is_cause: bool, tmp_path: Path
) -> None:
    found = check(tried(target(flaw), tmp_path, ("stdout",)), "stdout")
    assert found.conclusion.message.startswith("after a malformed line") == is_cause


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_a_backend_that_is_away_is_told_once(revision: str, tmp_path: Path) -> None:
    result = tried(target("backend-away"), tmp_path, (), revision)
    assert blamed(result) == {}
    infos = told(result, "info")
    assert list(infos) == ["list-tools"]
    assert "the server refused tools/list: error -32603" in infos["list-tools"]
    for name in ("call-tools", "missing-argument", "restart", "same-tools-again"):
        assert check(result, name).conclusion.message.startswith("because")


@pytest.mark.parametrize(
    ("probe", "revision"), [("uninitialized-operation", "2025-11-25"), ("first-request", "2026-07-28")]
)
def test_a_refusal_is_compared_with_an_ordinary_session(probe: str, revision: str, tmp_path: Path) -> None:
    seen = check(tried(target("backend-away"), tmp_path, (probe,), revision), probe)
    assert seen.status == "skipped"
    assert seen.conclusion.message.startswith("because tools/list is refused in any session: -32603")


def test_a_request_without_version_proves_nothing_about_discovery(tmp_path: Path) -> None:
    result = tried(target("era-by-opening"), tmp_path, ("discover", "request-without-version"), "2026-07-28")
    assert blamed(result) == {}


def test_a_result_for_any_method_is_no_sign_of_an_era(tmp_path: Path) -> None:
    result = tried(target("result-for-any-method"), tmp_path, ("ping", "discover"), "auto")
    assert result.revisions == ("2025-11-25",)
    (note,) = result.notes
    assert note.startswith(
        "the server answers unknown methods with a result, so its answer to server/discover "
    )
    assert blamed(result) == {}


def test_a_discovery_without_versions_is_a_fault_of_a_server_that_knows_its_methods(tmp_path: Path) -> None:
    result = tried(target("discovery-without-versions"), tmp_path, ("discover",), "auto")
    assert result.revisions == ("2026-07-28", "2025-11-25")
    assert check(result, "discover").conclusion.rule == "DISC-002"
    assert result.notes == ()


def test_what_was_not_seen_is_not_passed(tmp_path: Path) -> None:
    result = tried(target(), tmp_path, ("ping",))
    passed = {one.name for one in result.checks if one.status == "passed"}
    assert {"jsonrpc-rules", "lifecycle-rules"} <= passed
    assert not {"tools-rules", "resources-rules", "prompts-rules", "errors-rules", "logging-rules"} & passed
    assert list(passive.rule_checks([], {}, "2025-11-25", {"RPC-001": "a-rule"})) == []


def test_a_server_that_dies_at_once_is_not_judged(tmp_path: Path) -> None:
    for revision in ("auto", "2025-11-25", "all"):
        with pytest.raises(CouldNotStartError, match="ended with exit code 3"):
            tried(target("dies-at-start"), tmp_path, (), revision)


def test_a_server_without_a_name_need_not_speak_every_revision(tmp_path: Path) -> None:
    result = tried(target("older-without-a-name"), tmp_path, ("handshake",), "all")
    status = {one.revision: one.status for one in result.checks if one.name == "handshake"}
    assert status["2025-11-25"] == "passed"
    assert status["2026-07-28"] == "skipped"


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock can be put forward."""

    ahead_s = 0.0

    def time(self) -> float:
        return super().time() + self.ahead_s


def test_the_start_of_a_process_is_not_part_of_its_answer(tmp_path: Path) -> None:
    pids = str(tmp_path / "pids")
    os.mkfifo(f"{pids}.ready")
    os.mkfifo(f"{pids}.go")

    async def start_slowly(loop: JumpingLoop) -> None:
        while True:
            await asyncio.to_thread(Path(f"{pids}.ready").read_text)
            loop.ahead_s += 12
            await asyncio.to_thread(Path(f"{pids}.go").write_text, "go\n")

    async def main() -> Validation:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, JumpingLoop)
        slowly = asyncio.create_task(start_slowly(loop))
        try:
            return await validate(
                target("starts-when-told", SCRIPTED_PIDS=pids),
                chosen(("ping",)),
                Recordings(rules(), str(tmp_path / "trace.jsonl"), "trial"),
                options=ValidateOptions(timeout_s=10, start_s=60),
            )
        finally:
            slowly.cancel()
            Path(f"{pids}.ready").write_text("end\n")  # The thread still waits for a server.

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        result = runner.run(main())
    assert blamed(result) == {}
    assert check(result, "ping").status == "passed"


# A fault of mcpproxy


async def _fault(context: ProbeContext) -> None:
    assert not context.client.is_initialized, "never so"


async def _session_fault(context: ProbeContext) -> None:
    context.inventory.tools[0]["no such member"]


@pytest.mark.parametrize(
    ("run", "says"), [(_fault, "AssertionError: never so"), (_session_fault, "IndexError")]
)
def test_a_fault_of_ours_is_named_and_the_other_results_stay(
    run: Callable[[ProbeContext], object], says: str, tmp_path: Path
) -> None:
    before, after = (next(one for one in PROBES if one.name == name) for name in ("ping", "unknown-method"))
    always = chosen(("handshake",))
    broken = Probe("broken", "robustness", "Nothing.", run)  # pyright: ignore[reportArgumentType] # it returns None
    result = tried(target(), tmp_path, (*always, before, broken, after))
    assert check(result, "ping").status == "passed"
    assert check(result, "unknown-method").status == "passed"
    assert check(result, "broken").status == "skipped"
    (fault,) = result.faults
    assert fault.startswith(f"the check broken failed in mcpproxy itself: {says}")
    assert (result.verdict, result.exit_code) == ("undecided", 2)


def test_a_judge_that_fails_is_a_fault_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def observe(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("mcpproxy.judge.observer.Observer.observe", observe)
    result = tried(target(), tmp_path, ("ping",))
    assert check(result, "ping").status == "passed"
    assert result.exit_code == 2
    assert "mcpproxy stopped judging: ZeroDivisionError" in result.faults[0]


def test_a_refusal_under_the_id_of_an_invalid_request_is_an_answer(tmp_path: Path) -> None:
    assert blamed(tried(target(), tmp_path, ("invalid-request",))) == {}


@pytest.mark.parametrize("only", [("ping",), ()])
def test_a_server_without_ping_is_blamed_for_that_alone(only: tuple[str, ...], tmp_path: Path) -> None:
    others = ("id-zero", "line-separators", "concurrent-requests", "large-message", "huge-message")
    result = tried(target("refused-ping"), tmp_path, (*only, *others, "split-writes"))
    assert list(blamed(result)) in (["ping"], ["LIFE-004 failed-ping"])
    assert check(result, "id-zero").status == "passed"
    assert check(result, "concurrent-requests").conclusion.message.startswith("50 requests (tools/list, ")
    assert check(result, "split-writes").status == "passed"


@pytest.mark.parametrize(
    ("probe", "status"), [("request-before-initialize", "warning"), ("ping-before-initialize", "failed")]
)
def test_the_end_of_a_server_is_told_once(probe: str, status: str, tmp_path: Path) -> None:
    result = tried(target("end-at-early-request"), tmp_path, (probe,))
    assert list(blamed(result)) == [probe]
    assert check(result, probe).status == status


def test_what_a_server_complained_of_is_said_and_not_the_end_of_its_usage(tmp_path: Path) -> None:
    with pytest.raises(CouldNotStartError, match=r"exit code 3 \(Error: no configuration\)"):
        tried(target("dies-with-usage"), tmp_path)


def test_malformed_json_that_ends_a_server_is_told_once(tmp_path: Path) -> None:
    both = tried(target("end-at-malformed-json"), tmp_path / "both", ("malformed-json", "stdout"))
    assert list(blamed(both)) == ["malformed-json"]
    assert blamed(tried(target("end-at-malformed-json"), tmp_path / "alone", ("stdout",))) == {}


def test_stdout_names_the_malformed_line_before(tmp_path: Path) -> None:
    told = blamed(tried(target("traceback-on-stdout"), tmp_path, ("stdout",)))
    assert told["stdout"].startswith("after a malformed line (frame 8): server wrote ")


def test_a_late_answer_is_no_answer_to_a_notification(tmp_path: Path) -> None:
    late = target("answers-cancelled-requests-late")
    result = tried(late, tmp_path, ("cancellation", "cancel-unknown"))
    assert check(result, "cancel-unknown").conclusion.message == "ignored"


def test_a_slow_tool_is_a_warning_and_is_not_called_again(tmp_path: Path) -> None:
    result = tried(
        target("silent-tool"), tmp_path, ("list-tools", "call-tools", "missing-argument"), timeout_s=1.5
    )
    assert list(blamed(result)) == ["call-tools"]
    assert check(result, "call-tools").status == "warning"
    assert check(result, "missing-argument").status == "skipped"


def test_a_refusal_without_an_id_answers_a_huge_message(tmp_path: Path) -> None:
    result = tried(target("refuses-without-id"), tmp_path, ("huge-message",), timeout_s=4)
    seen = check(result, "huge-message")
    assert (seen.status, seen.conclusion.message) == (
        "passed",
        "a message of 4,096 KiB was refused, without its id",
    )


def test_an_answer_before_the_line_feed_is_an_answer(tmp_path: Path) -> None:
    assert blamed(tried(target("takes-json-without-line-feed"), tmp_path, ("split-writes",))) == {}
