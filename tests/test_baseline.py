"""Baselines: what is accepted, how it is written, and what becomes of it when a server changes."""

import json
from pathlib import Path
from typing import Any

import pytest

from mcpproxy.errors import UsageError
from mcpproxy.read.reports import baseline
from mcpproxy.read.reports.baseline import Baseline
from mcpproxy.read.reports.located import Located
from tests.reports.sessions import located, session


def everything(rule: str) -> bool:
    return True


def accepting(tmp_path: Path, *sessions: tuple[str, ...]) -> Baseline:
    """A baseline of these sessions, written and read again."""
    found: list[Located] = []
    for number, records in enumerate(sessions):
        found += located(tmp_path / f"{number}.jsonl", records)
    path = tmp_path / "baseline.json"
    path.write_text("".join(Baseline(str(path), {}).renewed(found, everything).lines()), encoding="utf-8")
    return baseline.read(str(path))


def new(accepted: Baseline, path: Path, records: tuple[str, ...]) -> list[str]:
    """The messages of what is found and not accepted."""
    return [one.finding.message for one in accepted.marked(located(path, records)) if not one.is_known]


def test_what_was_there_is_known_in_every_later_recording(tmp_path: Path) -> None:
    accepted = accepting(tmp_path, session())
    assert new(accepted, tmp_path / "t.jsonl", session()) == []
    assert new(accepted, tmp_path / "u.jsonl", session(pings=4, first_id=90, tools=("sub", "add"))) == []


def test_what_was_not_there_is_new(tmp_path: Path) -> None:
    accepted = accepting(tmp_path, session(tools=("add",)))
    assert new(accepted, tmp_path / "t.jsonl", session(tools=("add", "mul"))) == [
        'in the inputSchema of tool "mul", required should be an array of strings, is "a"'
    ]
    assert len(new(accepted, tmp_path / "u.jsonl", session(tools=("add",), calls=("add", "mul")))) == 1


def test_more_of_the_same_in_one_recording_is_new(tmp_path: Path) -> None:
    accepted = accepting(tmp_path, session(calls=("add", "add")))
    assert len(new(accepted, tmp_path / "t.jsonl", session(calls=("add",) * 2))) == 0
    assert len(new(accepted, tmp_path / "u.jsonl", session(calls=("add",) * 5))) == 3


def test_more_recordings_of_the_same_are_not(tmp_path: Path) -> None:
    one, two = accepting(tmp_path, session()), accepting(tmp_path, session(), session(pings=1))
    assert [entry.count for entry in two.entries.values()] == [entry.count for entry in one.entries.values()]


def test_what_does_not_come_up_is_fixed_if_it_was_judged(tmp_path: Path) -> None:
    accepted = accepting(tmp_path, session())
    found = located(tmp_path / "t.jsonl", session(tools=("sub",)))
    (fixed,) = accepted.fixed(found, everything)
    assert (fixed.rule, fixed.message[:33]) == ("SCHEMA-004", 'in the inputSchema of tool "add",')
    assert accepted.fixed(found, lambda rule: rule != "SCHEMA-004") == ()


def test_the_file_is_for_people(tmp_path: Path) -> None:
    accepted = accepting(tmp_path, session())
    written: dict[str, Any] = json.loads(Path(accepted.path).read_text(encoding="utf-8"))
    assert written["mcpproxy_baseline"] == 1
    assert [(entry["rule"], entry["count"]) for entry in written["findings"]] == [
        ("PROTO-007", 1),
        ("SCHEMA-004", 1),
        ("SCHEMA-004", 1),
    ]
    first = written["findings"][0]
    assert list(first) == [
        *("rule", "severity", "blame", "message", "count", "requirement", "fingerprint", "why"),
    ]
    assert (first["requirement"], first["severity"], first["why"]) == ("R-008", "error", "")
    assert str(tmp_path) not in Path(accepted.path).read_text(encoding="utf-8")


def test_a_reason_stays_when_it_is_written_again(tmp_path: Path) -> None:
    accepted = accepting(tmp_path, session())
    path = Path(accepted.path)
    written: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    written["findings"][0]["why"] = "all clients cope"
    path.write_text(json.dumps(written), encoding="utf-8")

    accepted = baseline.read(str(path))
    found = located(tmp_path / "t.jsonl", session(tools=("mul",), calls=("add", "add")))
    renewed = accepted.renewed(found, everything)
    assert [(entry.rule, entry.count, entry.why) for entry in renewed.entries.values()] == [
        ("PROTO-007", 2, "all clients cope"),
        ("SCHEMA-004", 1, ""),
    ]
    known = [one.why for one in renewed.marked(found) if one.is_known]
    assert known == ["", "all clients cope", "all clients cope"]


def test_written_again_it_is_the_same_file(tmp_path: Path) -> None:
    accepted = accepting(tmp_path, session(calls=("add", "add")))
    later = located(tmp_path / "u.jsonl", session(pings=4, first_id=90, calls=("add", "add")))
    assert list(accepted.renewed(later, everything).lines()) == list(accepted.lines())


def test_what_is_not_judged_stays_accepted(tmp_path: Path) -> None:
    accepted = accepting(tmp_path, session())
    assert list(accepted.renewed((), lambda rule: rule == "PROTO-007").entries) == [
        entry.fingerprint for entry in accepted.entries.values() if entry.rule == "SCHEMA-004"
    ]


def test_two_branches_that_were_merged_are_one(tmp_path: Path) -> None:
    entry = {"fingerprint": "f", "rule": "PROTO-007", "count": 2, "why": "a"}
    path = tmp_path / "b.json"
    path.write_text(
        json.dumps({"mcpproxy_baseline": 1, "findings": [entry, entry | {"count": 5, "why": ""}]})
    )
    (read,) = baseline.read(str(path)).entries.values()
    assert (read.count, read.why) == (5, "a")


REFUSED = {
    "no JSON": ("hello", "is not a baseline of mcpproxy; "),
    "JSON of others": ('{"version": "2.1.0", "runs": []}', "is not a baseline of mcpproxy; "),
    "a list": ("[]", "is not a baseline of mcpproxy; "),
    "of tomorrow": ('{"mcpproxy_baseline": 2}', "a baseline of format 2, this mcpproxy reads up to 1; "),
    "without findings": ('{"mcpproxy_baseline": 1}', "is a baseline without findings; "),
    "no entry": (
        '{"mcpproxy_baseline": 1, "findings": [7]}',
        "finding 1: it is an entry that is not an object; ",
    ),
    "half an entry": (
        '{"mcpproxy_baseline": 1, "findings": [{"fingerprint": "f"}]}',
        "finding 1: it is an entry without rule; ",
    ),
    "a count of nothing": (
        '{"mcpproxy_baseline": 1, "findings": [{"fingerprint": "f", "rule": "r", "count": 0}]}',
        "finding 1: it is an entry with a bad count; ",
    ),
}


@pytest.mark.parametrize(("text", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_baseline_is_refused(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    path.write_text(text)
    with pytest.raises(UsageError) as refused:
        baseline.read(str(path))
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_baseline_that_is_not_there_is_empty_only_if_it_may_be(tmp_path: Path) -> None:
    path = str(tmp_path / "none.json")
    assert baseline.read(path, may_be_missing=True) == Baseline(path, {})
    with pytest.raises(UsageError, match="there is no such baseline; --write-baseline writes one"):
        baseline.read(path)
    with pytest.raises(UsageError, match="is a directory"):
        baseline.read(str(tmp_path))
