"""Each planted fault is found, confirmed, and kept as a short recording that repeats it."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from mcpproxy.judge.ruleset import ruleset
from mcpproxy.peers.fuzz.campaign import Campaign
from mcpproxy.peers.fuzz.confirmation import Trials
from mcpproxy.peers.fuzz.draws import Draws
from mcpproxy.peers.fuzz.material import material
from mcpproxy.peers.fuzz.plan import Plan
from mcpproxy.peers.fuzz.results import FuzzOptions
from mcpproxy.peers.fuzz.symptoms import Kind
from mcpproxy.peers.replay.recording import load
from mcpproxy.peers.validate.recordings import Target
from tests.fuzz.campaigns import LONG_S, PATIENT, fuzzed, planted, recorded
from tests.fuzz.planted import FAULTS
from tests.fuzz.planted_http import HTTP_FAULTS
from tests.peers import processes
from tests.peers.ports import free_port

MOST_FRAMES = 10

FOUND = {
    "crash-on-empty-text": ("crash", "IndexError"),
    "crash-on-huge-number": ("crash", "struct.error"),
    "crash-on-lone-surrogate": ("crash", "UnicodeEncodeError"),
    "crash-on-deep-nesting": ("crash", "RecursionError"),
    "signal-on-long-name": ("crash", "SIGTERM"),
    "hang-on-batch": ("hang", "ping"),
    "hang-on-cancel": ("hang", "ping"),
    "id-as-text": ("protocol", "PROTO-007"),
    "result-without-content": ("protocol", "TOOL-005"),
    "result-and-error": ("protocol", "RPC-009"),
    "answer-to-notification": ("protocol", "PROTO-007"),
    "leak-of-last-call": ("leak", "tools/call echo"),
    "log-line-on-stdout": ("protocol", "STDIO-002"),
}
"""Fault -> the kind of the report, and a part of its text."""

FOUND_OVER_HTTP = {
    "status-500": ("crash", "HTTP status 500", True),
    "hang-on-batch": ("hang", "ping", False),
    "leak-of-other-session": ("leak", "tools/call echo", True),
}
"""Fault -> the kind, a part of the text, and whether it can be confirmed, unlike with a server that hangs."""


def test_each_fault_has_a_row() -> None:
    assert (set(FOUND), set(FOUND_OVER_HTTP)) == (set(FAULTS), set(HTTP_FAULTS))


@pytest.mark.parametrize("name", FOUND)
def test_a_planted_fault_is_found_and_repeats(name: str, tmp_path: Path) -> None:
    kind, text = FOUND[name]
    (fault,) = fuzzed(planted(name), recorded(tmp_path / "t.jsonl")).faults
    assert (fault.kind, fault.is_confirmed, fault.is_replayed) == (kind, True, True), fault
    assert text in fault.text
    assert fault.frames <= MOST_FRAMES
    assert len(load(fault.trace).sessions) == 1


@pytest.mark.parametrize("name", FOUND_OVER_HTTP)
def test_a_planted_fault_over_http_is_found(name: str, tmp_path: Path) -> None:
    kind, text, is_confirmed = FOUND_OVER_HTTP[name]
    with processes.server([sys.executable, "-m", "tests.fuzz.planted_http", name]) as origin:
        result = fuzzed(Target(url=f"{origin}/mcp"), recorded(tmp_path / "t.jsonl"))
    (fault,) = result.faults
    assert (fault.kind, fault.is_confirmed, bool(fault.is_replayed)) == (kind, *[is_confirmed] * 2), fault
    assert text in fault.text
    assert fault.frames <= MOST_FRAMES
    assert bool(result.stopped) == (not is_confirmed)


def test_a_correct_server_gives_no_report(tmp_path: Path) -> None:
    result = fuzzed(planted(), recorded(tmp_path / "t.jsonl"), count=300)
    assert (result.faults, result.once) == ([], [])
    assert result.sent >= 300


def test_replay_client_repeats_a_fault_and_sees_that_it_is_mended(tmp_path: Path) -> None:
    (fault,) = fuzzed(planted("crash-on-empty-text"), recorded(tmp_path / "t.jsonl")).faults
    command = [sys.executable, "-m", "mcpproxy", "replay", "client", fault.trace, "--"]
    codes = [
        subprocess.run([*command, *planted(*names).command], capture_output=True, check=False).returncode
        for names in (("crash-on-empty-text",), ())
    ]
    assert codes == [0, 1]


@pytest.mark.parametrize("kind", ["crash", "protocol"])
def test_only_the_kinds_that_are_asked_for_are_found(kind: Kind, tmp_path: Path) -> None:
    both = planted("crash-on-empty-text", "result-and-error")
    (fault,) = fuzzed(both, recorded(tmp_path / "t.jsonl"), kinds=[kind]).faults
    assert fault.kind == kind


def test_when_the_time_is_over_a_fault_is_not_confirmed_but_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead_s = [0.0]
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + ahead_s[0])
    for module in ("campaign", "confirmation"):
        monkeypatch.setattr(f"mcpproxy.peers.fuzz.{module}.time", clock)

    def pass_time(work: str) -> None:
        if "to confirm it" in work:
            ahead_s[0] = LONG_S

    source = material(load(recorded(tmp_path / "t.jsonl")))
    options = FuzzOptions(1, LONG_S, limits=PATIENT)
    target, folder = planted("result-and-error"), tmp_path / "faults"
    campaign = Campaign(target, source, ruleset.load(), options, str(folder), on_progress=pass_time)
    result = asyncio.run(campaign.run())
    assert (result.faults, result.once) == ([], [])
    (seen,) = result.unconfirmed
    assert "RPC-009: server answered with both a result and an error" in seen
    assert not folder.exists()


@pytest.mark.parametrize("name", ["everything-2025-11-25", "echo-2026-07-28"])
def test_a_server_behind_a_url_that_nothing_listens_at_is_not_back(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpproxy.peers.fuzz.confirmation._BACK_S", 0)
    source = material(load(processes.ROOT / "recordings" / f"{name}.jsonl"))
    target = Target(url=f"http://127.0.0.1:{free_port()}/mcp")
    trials = Trials(target, source, ruleset.load(), str(tmp_path))
    assert not asyncio.run(trials.wait_until_back(PATIENT))


def test_the_same_seed_sends_the_same(tmp_path: Path) -> None:
    found = material(load(recorded(tmp_path / "t.jsonl")))

    def beginning(seed: int) -> list[list[bytes]]:
        sessions = Plan(found, seed, "stdio").sessions()
        return [[step.raw for step in next(sessions)] for _ in range(5)]

    assert beginning(7) == beginning(7)
    assert beginning(7) != beginning(8)


def test_a_decision_depends_on_its_purpose_only() -> None:
    draws = Draws(1, "session", 2)
    assert draws.shuffled("abcdef") == Draws(1, "session", 2).shuffled("fedcba")
    assert draws.digest("a") != draws.digest("b")
    assert {draws.pick("xyz", number) for number in range(100)} == set("xyz")
