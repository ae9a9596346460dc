"""Servers with one fault each: a lawful client passes them all, and a client with a flaw is found."""

import json
import sys
from pathlib import Path

import pytest

from mcpproxy.gate.intercept.fault_rules import read_faults
from mcpproxy.judge.ruleset.ruleset import load
from mcpproxy.peers.client_tests.client_process import Stay
from mcpproxy.peers.client_tests.faulty import LAWFUL_FAULTS, WRONG_FAULTS
from mcpproxy.peers.client_tests.rows.authorized import NOWHERE, REFUSALS
from mcpproxy.peers.client_tests.scenarios import SCENARIOS
from mcpproxy.peers.client_tests.seen import SeenClient
from mcpproxy.peers.client_tests.verdict import Played, failure, verdict
from mcpproxy.peers.client_tests.wrong import OTHERS_FIRST, WRONG
from tests.client_tests.test_validate_client import HANGS_S, LIMIT, Outcome, minimal, statuses, with_each

FAULTS = [*LAWFUL_FAULTS, *WRONG_FAULTS]
BY_SCRIPT = ("breaks-output-schema", "no-structured-result", "cut-in-line", *OTHERS_FIRST)
CANCELS = "answers-cancelled"
VISIT = (
    "import os\n"
    "from tests.client_tests.visitor import Visitor\n"
    "client = Visitor(os.environ['MCPPROXY_SERVER'])\n"
    "client.connects()\n"
    "client.asks('tools/list')\n"
    "client.asks('tools/call', {'name': 'echo', 'arguments': {}})\n"
    "if client.status == 404: {at_404}\n"
    "client.leaves()\n"
)


def told(outcome: Outcome) -> dict[str, str]:
    return {check["name"]: check["message"] for check in json.loads(outcome.out)["checks"]}


def visit(at_404: str) -> tuple[str, ...]:
    """A client over HTTP that does something once its session is not found."""
    return (sys.executable, "-c", VISIT.replace("{at_404}", at_404))


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_each_fault_exists_on_its_transports(transport: str) -> None:
    for scenario in FAULTS:
        if transport in scenario.transports:
            assert read_faults([], [scenario.fault], transport).rules
    assert len({scenario.name for scenario in SCENARIOS}) == len(SCENARIOS)


@pytest.mark.parametrize(
    "names",
    [
        [*(one.name for one in WRONG_FAULTS if one.needs == "tools/call"), "never-answers", CANCELS],
        [*(one.name for one in FAULTS if one.needs != "tools/call"), *BY_SCRIPT, "split-answer"],
    ],
    ids=["calls", "others"],
)
def test_a_lawful_client_passes_all_on_stdio(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, names: list[str]
) -> None:
    only = f"--only={','.join(names)}"
    outcome = Outcome(capsys, tmp_path, "--json", only, f"--timeout={LIMIT}", "--", *minimal("none"))
    assert outcome.code == 0
    played = [one.name for one in SCENARIOS if one.name in names and "stdio" in one.transports]
    expected = dict.fromkeys(["ordinary", *played], "passed")
    if CANCELS in names:  # no answer comes after the end of a call that is not cancelled
        expected[CANCELS] = "skipped"
        assert told(outcome)[CANCELS] == "the client sent no notifications/cancelled with never-answers"
    assert statuses(outcome) == expected
    assert not [name for name in OTHERS_FIRST if f"{name} (behaviour)" in told(outcome)]


def test_a_lawful_client_passes_over_http(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    names = [one.name for one in WRONG_FAULTS if one.transports == ("http",)]
    only = f"--only=slow-answer,wrong-id,{','.join(names)}"
    options = ("--json", "--listen=127.0.0.1:0", only, f"--timeout={LIMIT}", "--")
    outcome = Outcome(capsys, tmp_path, *options, *visit("os._exit(1)"))
    assert outcome.code == 0
    assert statuses(outcome) == dict.fromkeys(["ordinary", "slow-answer", "wrong-id", *names], "passed")
    assert "ended with exit code 1" in told(outcome)["cut-stream (behaviour)"]


ENDS = {
    "cut-in-line": ("dies-of-garbage", "was ended by SIGABRT"),
    "cut-line": ("dies-of-garbage", "was ended by SIGABRT"),
    "no-result": ("dies-of-null", "was ended by SIGABRT"),
    "null-result": ("dies-of-null", "was ended by SIGABRT"),
    "refused": ("dies-of-error", "was ended by SIGABRT"),
    "error-answer": ("dies-of-error", "was ended by SIGABRT"),
    CANCELS: ("dies-of-late-answer", "was ended by SIGABRT"),
    "duplicate-answer": ("hangs-at-other-id", "hangs: it was ended after"),
    "wrong-id": ("hangs-at-end", "hangs: it was ended after"),
}
"""What a client does with each of these servers, and what is told of it."""


def test_a_client_that_crashes_or_hangs_is_found(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    options = ("--json", "--jobs=1", f"--only={','.join(ENDS)}", f"--timeout={HANGS_S}", "--")
    client = with_each({server: flaw for server, (flaw, _) in ENDS.items()})
    outcome = Outcome(capsys, tmp_path, *options, *client)
    assert outcome.code == 1
    assert statuses(outcome) == {"ordinary": "passed", **dict.fromkeys(ENDS, "failed")}
    for server, (_, text) in ENDS.items():
        assert text in told(outcome)[server]


def test_a_client_that_dies_of_a_status_is_found(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    options = ("--json", "--listen=127.0.0.1:0", "--only=lost-session", f"--timeout={LIMIT}", "--")
    outcome = Outcome(capsys, tmp_path, *options, *visit("os.abort()"))
    assert statuses(outcome)["lost-session"] == "failed"


def test_whose_answer_a_client_takes_for_its_own(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    options = ("--json", f"--only={','.join(OTHERS_FIRST)}", f"--timeout={LIMIT}", "--")
    outcome = Outcome(capsys, tmp_path, *options, *minimal("believes-any-id"))
    assert outcome.code == 0
    facts = {told(outcome)[f"{name} (behaviour)"] for name in OTHERS_FIRST}
    assert facts == {"takes it for the answer to its call"}


def test_a_client_that_waits_without_cancelling_is_not_blamed() -> None:
    """The server answers only what is cancelled, so there is no end that such a client misses."""
    (scenario,) = (one for one in WRONG if one.name == "answers-cancelled")
    seen = SeenClient(sessions=1)
    ordinary = Played(SCENARIOS[0], seen, Stay(0, 1.0, ""), ())
    waiting = Played(scenario, seen, Stay(None, 20.0, ""), ())
    conclusion, _ = verdict(waiting, ordinary, set(), load().catalogue, "2025-11-25")
    assert conclusion.status == "skipped"
    cancelled = SeenClient(sessions=1)
    cancelled.notifications["notifications/cancelled"] += 1
    waiting = Played(scenario, cancelled, Stay(None, 20.0, ""), ())
    conclusion, _ = verdict(waiting, ordinary, set(), load().catalogue, "2025-11-25")
    assert conclusion.status == "failed"


def test_a_client_that_asks_until_it_is_ended_is_not_said_to_hang() -> None:
    ordinary = Played(SCENARIOS[0], SeenClient(sessions=1), Stay(0, 1.0, ""), ())
    asking = Played(NOWHERE, SeenClient(sessions=1, refusals=REFUSALS + 1), Stay(None, 20.0, ""), ())
    assert failure(asking, ordinary).startswith("the client asks again and again")


def test_each_wrong_server_leaves_a_client_the_choice_to_give_up() -> None:
    assert [one.name for one in WRONG if one.reaction == "goes on"] == []
