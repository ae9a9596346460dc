"""``check --out``: a file for each recording, written once, under the key of the rules."""

import json
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from mcpproxy.base.files import Folder
from tests import house
from tests.cli.conftest import Mcpproxy
from tests.fleet import corpus


def records(out: Path) -> dict[str, Any]:
    """The results by the name of the recording, of all rules."""
    return {
        name.partition("/")[2].removesuffix(".json"): json.loads(content)
        for name, content in corpus.tree(out).items()
    }


def test_a_result_has_the_findings_and_their_places(mcpproxy: Mcpproxy, fleet: Path, tmp_path: Path) -> None:
    judged = mcpproxy("check", str(fleet), "--out", str(tmp_path / "out"))
    assert judged.code == 0
    assert judged.out.splitlines()[0] == "2 errors, 9 info in 4 traces, 35 frames"
    found = records(tmp_path / "out")
    assert found.keys() == corpus.RECORDINGS.keys()
    record = found["week-2/weather-b.jsonl"]
    assert (record["format"], record["status"], record["complete"], record["frames"]) == (
        1,
        "judged",
        True,
        8,
    )
    (error,) = [each for each in record["findings"] if each["severity"] == "error"]
    assert (error["rule"], error["frame"]) == ("PROTO-007", 6)
    assert (error["file"], error["line"]) == ("week-2/weather-b.jsonl", 7)
    assert len(record["sha256"]) == 64


def test_a_second_run_judges_what_is_new(mcpproxy: Mcpproxy, fleet: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    mcpproxy("check", str(fleet), "--out", str(out))
    before = corpus.tree(out)
    corpus.write(fleet, {"week-3/new.jsonl": corpus.RECORDINGS["week-1/files-a.jsonl"]})
    again = mcpproxy("check", str(fleet), "--out", str(out))
    assert again.out.splitlines()[:2] == [
        "1 info in 1 trace, 9 frames",
        "4 traces had a result already.",
    ]
    assert {name: content for name, content in corpus.tree(out).items() if "week-3" not in name} == before


def test_a_result_does_not_depend_on_the_place_of_the_fleet(
    mcpproxy: Mcpproxy, fleet: Path, tmp_path: Path
) -> None:
    (fleet / "broken.jsonl").write_text("not a trace\n")
    shutil.copytree(fleet, tmp_path / "else" / "where")
    mcpproxy("check", str(fleet), "--out", str(tmp_path / "one"))
    mcpproxy("check", str(tmp_path / "else" / "where"), "--out", str(tmp_path / "two"))
    assert corpus.tree(tmp_path / "one") == corpus.tree(tmp_path / "two")
    assert str(tmp_path).encode() not in b"".join(corpus.tree(tmp_path / "one").values())


def test_results_of_other_rules_are_kept_apart(mcpproxy: Mcpproxy, fleet: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    mcpproxy("check", str(fleet), "--out", str(out))
    mcpproxy("check", str(fleet), "--out", str(out), "--select", "PROTO")
    folder = house.build(tmp_path)
    mcpproxy("check", str(fleet), "--out", str(out), "--rules", folder)
    assert len(list(out.iterdir())) == 3
    rules = Path(folder, "house.py")
    rules.write_text(rules.read_text().replace("client listed tools", "client has listed tools"))
    mcpproxy("check", str(fleet), "--out", str(out), "--rules", folder)
    keys = sorted(each.name for each in out.iterdir())
    assert len(keys) == 4
    assert all(record["rules"] in keys for record in records(out).values())


def test_a_rotated_recording_is_one_unit(mcpproxy: Mcpproxy, fleet: Path, tmp_path: Path) -> None:
    first, second = _rotated()
    corpus.write(fleet, {"rotated.jsonl": first, "rotated.2.jsonl": second})
    mcpproxy("check", str(fleet), "--out", str(tmp_path / "out"))
    found = records(tmp_path / "out")
    assert "rotated.2.jsonl" not in found
    assert (found["rotated.jsonl"]["frames"], found["rotated.jsonl"]["complete"]) == (5, True)


def test_a_recording_waits_for_the_files_that_it_names(
    mcpproxy: Mcpproxy, fleet: Path, tmp_path: Path
) -> None:
    first, second = _rotated()
    corpus.write(fleet, {"rotated.jsonl": first})
    waiting = mcpproxy("check", str(fleet), "--out", str(tmp_path / "out"))
    assert waiting.code == 0
    assert "1 trace did not end yet: judged by a later run." in waiting.out
    assert "rotated.jsonl" not in records(tmp_path / "out")
    corpus.write(fleet, {"rotated.2.jsonl": second})
    mcpproxy("check", str(fleet), "--out", str(tmp_path / "out"))
    assert records(tmp_path / "out")["rotated.jsonl"]["complete"]


def _rotated() -> tuple[tuple[str, ...], tuple[str, ...]]:
    whole = corpus.ended(
        corpus.header("weather", corpus.FIRST),
        *corpus.handshake("editor", "weather"),
        *corpus.listing(corpus.STATIONS),
    )
    counts = '"frames":{"client":2,"server":1},"findings":{"error":0,"warning":0,"info":0},"judge_error":null'
    going_on = f'{{"type":"continued","t":35000000,"in":"rotated.2.jsonl",{counts}}}'
    later = json.loads(whole[0]) | {"continues": "rotated.jsonl"}
    return (*whole[:4], going_on), (json.dumps(later), *whole[4:])


def test_a_recording_that_cannot_be_read_has_a_result_that_says_why(
    mcpproxy: Mcpproxy, fleet: Path, tmp_path: Path
) -> None:
    (fleet / "week-1" / "torn.jsonl").write_text("not a trace\n")
    judged = mcpproxy("check", str(fleet), "--out", str(tmp_path / "out"))
    assert judged.code == 0
    assert judged.err.startswith("mcpproxy: week-1/torn.jsonl:")
    assert "1 trace cannot be read; the result says why." in judged.out
    assert records(tmp_path / "out")["week-1/torn.jsonl"]["status"] == "unreadable"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--engine", "local"), "check --engine local: needs a place for the results; add --out DIR"),
        (("fleet", "fleet", "--out", "o"), "judges the recordings of one folder or URL; name one"),
        (("nowhere", "--out", "o"), "is not a folder; name a folder of recordings"),
        (("fleet", "--out", "o", "--session", "a"), "--session is for a report; leave one of the two out"),
        (("fleet", "--out", "o", "--json"), "--format is for a report; leave one of the two out"),
        (("fleet", "--out", "o", "--select", "NO-1"), "'NO-1' is neither a rule nor a family of rules"),
        (("fleet", "--out", "fleet/week-1/weather-a.jsonl"), "no result can be written: is not a folder"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(
    mcpproxy: Mcpproxy, fleet: Path, monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(fleet.parent)
    refused = mcpproxy("check", *argv)
    assert refused.code == 2
    assert said in refused.err


def test_the_draft_of_another_judge_is_left_alone(tmp_path: Path) -> None:
    """In two containers, two processes may have the same number."""
    draft = tmp_path / f"result.{os.getpid()}.{threading.get_ident()}.partial"
    draft.write_bytes(b"half")
    with pytest.raises(FileExistsError):
        Folder(str(tmp_path)).put_new("result", b"whole")
    assert draft.read_bytes() == b"half"
