"""``mcpproxy stats``: tables, JSON, and files that are no recordings."""

import json
from pathlib import Path

from tests.cli.conftest import Mcpproxy
from tests.view.situations import write
from tests.view.test_stats import session


def test_the_command_prints_tables(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    ran = mcpproxy("stats", write(tmp_path / "s.jsonl", session()))
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0] == "1 recording, 24 frames, 12 calls"
    assert lines[2].split() == [
        "CALLS",
        "FAILED",
        "UNANSWERED",
        "P50",
        "P95",
        "MAX",
        "IN",
        "OUT",
        "TOKENS",
        "CALL",
    ]
    assert lines[3].split()[:5] == ["10", "1", "1", "14.0", "ms"]
    assert lines[3].endswith("tools/call forecast")
    assert "1 of 2 tools never used" in ran.out
    assert "tokens are estimated: one for 4 bytes of JSON" in ran.out


def test_the_command_prints_json(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", session())
    write(tmp_path / "b.jsonl", session())
    ran = mcpproxy("stats", str(tmp_path), "--json")
    assert ran.code == 0
    found = json.loads(ran.out)
    assert (found["recordings"], found["never_used"]) == (2, ["archive"])
    assert found["calls"][0]["name"] == "forecast"


def test_a_file_that_is_no_recording_is_named(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", session())
    write(tmp_path / "b.jsonl", ("hello",))
    ran = mcpproxy("stats", str(tmp_path))
    assert ran.code == 2
    assert ran.out.startswith("1 recording,")
    assert "b.jsonl:1: not an mcpproxy trace" in ran.err
