"""``check --shard``: the parts of a fleet, with and without a folder for the results."""

from pathlib import Path

import pytest

from mcpproxy.send.fleet.judge.corpus import FleetRecording
from mcpproxy.send.fleet.judge.shard import Shard
from tests.cli.conftest import Mcpproxy
from tests.fleet import corpus


def test_each_recording_belongs_to_one_shard() -> None:
    names = [f"day-{number % 7}/{number}.jsonl" for number in range(1000)]
    recordings = [FleetRecording(name) for name in names]
    parts = [list(Shard(index, 8).of(recordings)) for index in range(8)]
    assert sorted(each.name for part in parts for each in part) == sorted(names)
    assert all(90 < len(part) < 160 for part in parts)


def test_the_shard_of_a_recording_never_changes() -> None:
    # Machines of several versions may share a fleet: these numbers stay.
    assert [index for index in range(8) if Shard(index, 8).holds("week-1/weather-a.jsonl")] == [2]
    assert [index for index in range(3) if Shard(index, 3).holds("week-2/weather-b.jsonl")] == [0]


@pytest.mark.parametrize("text", ["8/8", "1", "-1/8", "0/0", "a/b", "1/8/2", ""])
def test_what_is_not_a_shard_is_refused(mcpproxy: Mcpproxy, fleet: Path, text: str) -> None:
    code, out, err = _run(mcpproxy, str(fleet), f"--shard={text}")
    assert (code, out) == (2, "")
    assert err.endswith("see mcpproxy check --help\n")
    assert "is not a shard such as 3/64" in err


def test_without_out_the_report_of_a_shard_is_printed(mcpproxy: Mcpproxy, fleet: Path) -> None:
    outputs = [mcpproxy("check", str(fleet), "--shard", f"{index}/3").out for index in range(3)]
    counted = [
        output.splitlines()[-2].split(" in ")[1].split(" ")[0] for output in outputs if "explain" in output
    ]
    assert sum(map(int, counted)) == len(corpus.RECORDINGS)


def test_shards_together_write_what_one_run_writes(mcpproxy: Mcpproxy, fleet: Path, tmp_path: Path) -> None:
    assert mcpproxy("check", str(fleet), "--out", str(tmp_path / "whole")).code == 0
    for index in (5, 0, 3, 1, 7, 2, 6, 4):
        shard = f"{index}/8"
        assert mcpproxy("check", str(fleet), "--shard", shard, "--out", str(tmp_path / "parts")).code == 0
    assert corpus.tree(tmp_path / "parts") == corpus.tree(tmp_path / "whole")
    assert len(corpus.tree(tmp_path / "whole")) == len(corpus.RECORDINGS)


def _run(mcpproxy: Mcpproxy, *argv: str) -> tuple[int, str, str]:
    outcome = mcpproxy("check", *argv)
    return outcome.code, outcome.out, outcome.err
