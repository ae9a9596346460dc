"""``mcpproxy stats``: tables, JSON, and files that are no recordings."""

import json
from pathlib import Path

from mcpproxy.read.view.stats import ORDERS
from tests.cli.conftest import Mcpproxy
from tests.view.situations import begun, text, write
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


def test_calls_that_were_given_up_have_a_column_if_there_are_any(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    about = begun()
    about.asks(7, "tools/call", {"name": "slow", "arguments": {}}, ms=1000)
    about.notifies("notifications/cancelled", {"requestId": 7}, ms=4000, by="client")
    path = write(tmp_path / "s.jsonl", about.closes(ms=5000))
    lines = mcpproxy("stats", path, "--sort", "failed").out.splitlines()
    assert lines[2].split()[:5] == ["CALLS", "FAILED", "UNANSWERED", "CANCELLED", "P50"]
    assert lines[3].split()[:6] == ["1", "0", "0", "1", ">3.00", "s"]
    assert "> is before the time that a call without an answer waited" in lines
    assert json.loads(mcpproxy("stats", path, "--json", "--sort", "failed").out)["calls"][0]["cancelled"] == 1


def test_the_command_prints_json(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", session())
    write(tmp_path / "b.jsonl", session())
    ran = mcpproxy("stats", str(tmp_path), "--json")
    assert ran.code == 0
    found = json.loads(ran.out)
    assert (found["recordings"], found["never_used"]) == (2, ["archive"])
    assert found["calls"][0]["name"] == "forecast"


def test_the_order_is_chosen(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    about = begun()
    for id, (tool, ms, answer) in enumerate(
        [("often", 1, "x"), ("often", 1, "x"), ("slow", 900, "x"), ("long", 1, "x" * 4000)], 7
    ):
        about.asks(id, "tools/call", {"name": tool, "arguments": {}}, ms=1000 * id)
        about.answers(id, text(answer), ms=1000 * id + ms)
    about.asks(99, "tools/call", {"name": "hung", "arguments": {}}, ms=20_000)
    path = write(tmp_path / "s.jsonl", about.closes(ms=30_000))

    def first(order: str) -> str:
        return str(json.loads(mcpproxy("stats", path, "--json", "--sort", order).out)["calls"][0]["name"])

    assert [first(order) for order in ORDERS] == ["often", "hung", "hung", "long"]
    hung = mcpproxy("stats", path, "--sort", "latency").out.splitlines()[3]
    assert hung.split()[:9] == ["1", "0", "1", *[">10.0", "s"] * 3]
    refused = mcpproxy("stats", path, "--sort", "age")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert all(order in refused.err for order in ORDERS)


def test_all_recordings_with_a_label_are_counted_together(
    mcpproxy: Mcpproxy, state_dir: Path, tmp_path: Path
) -> None:
    state_dir.mkdir(parents=True)
    for hour, label in ((10, "files"), (11, "weather"), (12, "files")):
        write(state_dir / f"20261121T{hour}2030.000Z-{label}-{hour}.jsonl", session())
    other = write(tmp_path / "other.jsonl", session())

    def counted(*argv: str) -> int:
        return int(json.loads(mcpproxy("stats", "--json", *argv).out)["recordings"])

    assert counted("--label", "files") == 2
    assert counted("--label", "files", "--label", "weather") == 3
    assert counted("--label", "files", other) == 3
    assert counted(other, "weather") == 2
    assert counted() == 1
    assert "has this label; see mcpproxy list" in mcpproxy("stats", "--label", "mail").err


def test_a_file_that_is_no_recording_is_named(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", session())
    write(tmp_path / "b.jsonl", ("hello",))
    ran = mcpproxy("stats", str(tmp_path))
    assert ran.code == 2
    assert ran.out.startswith("1 recording,")
    assert "b.jsonl:1: not an mcpproxy trace" in ran.err
