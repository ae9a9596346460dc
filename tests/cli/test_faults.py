"""``mcpproxy faults``: the ready-made sets, and what rules would do to a recording."""

import json
from pathlib import Path

import pytest

from mcpproxy.gate.intercept import fault_sets
from mcpproxy.gate.intercept.addons.closed_gate import LIMIT_BYTES
from mcpproxy.gate.intercept.fault_plan import FaultPlanner
from mcpproxy.gate.intercept.fault_rules import read_faults
from mcpproxy.judge.session.frame import SERVER, Frame
from tests.cli import recordings
from tests.cli.conftest import Mcpproxy

RECORDINGS = Path(__file__).parent.parent.parent / "recordings"
STDIO = str(RECORDINGS / "everything-2025-06-18.jsonl")
HTTP = str(RECORDINGS / "everything-http-2025-06-18.jsonl")


def test_every_set_is_listed(mcpproxy: Mcpproxy) -> None:
    _, *lines = mcpproxy("faults", "list").out.splitlines()
    assert [line.split()[0] for line in lines] == fault_sets.names()
    assert "stdio, http" in lines[0]


def test_a_plan_names_each_message_and_what_would_happen(mcpproxy: Mcpproxy) -> None:
    said = mcpproxy(
        "faults", "plan", "from:server tool:echo => delay 2s, name slow", STDIO, "--fault-seed", "7"
    )
    assert said.out.splitlines() == [
        "FRAME  FROM    WHAT             RULE  NO.  ACTION",
        "    8  server  tools/call echo  slow    1  delay 2 s",
        "1 fault by seed 7",
    ]
    assert said.code == 0


def test_what_follows_a_lost_session_is_in_the_plan(mcpproxy: Mcpproxy) -> None:
    said = mcpproxy("faults", "plan", "lost-session", HTTP, "--format", "json")
    planned = json.loads(said.out)["faults"]
    assert [(fault["what"], fault["action"]) for fault in planned][-1] == ("DELETE", "lose-session")


def test_an_edit_that_fits_nowhere_is_told(mcpproxy: Mcpproxy) -> None:
    said = mcpproxy("faults", "plan", 'kind:request => set {"/params/x/y": 1}, limit 1', STDIO)
    assert "set (there is no such place)" in said.out


def test_what_is_too_long_to_be_held_is_not_in_the_plan() -> None:
    pieces = [Frame(1, SERVER, b'{"x":', continues=True), Frame(2, SERVER, b"1}")]
    long, short = Frame(3, SERVER, b" " * LIMIT_BYTES + b"{}"), Frame(4, SERVER, b"{}")
    planner = FaultPlanner(read_faults([], ["=> drop"], "stdio"))
    assert [fault.seq for fault in planner.plan([*pieces, long, short])] == [short.seq]


def test_the_same_seed_gives_the_same_plan(mcpproxy: Mcpproxy) -> None:
    plans = {
        mcpproxy("faults", "plan", "=> drop, percentage 30", STDIO, "--fault-seed", "7").out for _ in "123"
    }
    assert len(plans) == 1
    assert mcpproxy("faults", "plan", "=> drop, percentage 30", STDIO, "--fault-seed", "8").out not in plans


@pytest.mark.parametrize(
    ("argv", "fact"),
    [
        (["list", "x"], "unrecognized arguments"),
        (["pln"], "faults pln: neither list nor plan; did you mean plan?"),
        (["plan", "tool:none => drop", STDIO], "rule matches no message: rule-1; correct its filter"),
        (
            ["plan", "lost-sesion", HTTP],
            "lost-sesion: no such faults; did you mean lost-session?",
        ),
        (["plan", "lost-session", STDIO], "faults: all rules are for http, and this is stdio"),
        (["plan", "=> dorp", STDIO], "--fault: there is no action dorp; do you mean drop?"),
        (["plan", "=> drop", "none.jsonl"], "none.jsonl: no such file"),
    ],
)
def test_what_cannot_be_planned(mcpproxy: Mcpproxy, argv: list[str], fact: str) -> None:
    said = mcpproxy("faults", *argv)
    assert said.code == 2
    assert fact in said.err
    assert said.err.count("\n") == 1


def test_a_set_is_not_taken_for_a_file_of_its_name(
    mcpproxy: Mcpproxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    trace = recordings.write(tmp_path / "t.jsonl", recordings.CLEAN)
    (tmp_path / "slow-tools").write_text('[[rule]]\nname = "mine"\ndo = {drop = true}\n')
    assert "mine" in mcpproxy("faults", "plan", "slow-tools", trace).out
