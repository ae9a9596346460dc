"""SARIF logs: valid by the schema, and every result beside the record of its frame."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import jsonschema

from mcpproxy.judge.ruleset import catalogue
from mcpproxy.judge.session.frame import Finding
from mcpproxy.read.reports import sarif
from mcpproxy.read.reports.baseline import Baseline, Entry
from mcpproxy.read.reports.located import Located, Remark
from tests.peers.fixtures import Peers
from tests.reports.sessions import located, session

KNOWN: Final = catalogue.load()


def log(
    found: tuple[Located, ...],
    *remarks: Remark,
    base: Path,
    exit_code: int = 1,
    fixed: Sequence[Entry] | None = None,
) -> dict[str, Any]:
    """The log of a run."""
    (text,) = sarif.lines(found, remarks, KNOWN, base=str(base), exit_code=exit_code, fixed=fixed)
    return json.loads(text)


def faults(peers: Peers, value: dict[str, Any]) -> list[str]:
    """What the schema of SARIF 2.1.0 has against ``value``."""
    schema = json.loads((peers.report_schemas() / "sarif-2.1.0-rtm.5.json").read_text(encoding="utf-8"))
    checker = jsonschema.Draft4Validator.FORMAT_CHECKER
    validator: Any = jsonschema.Draft4Validator(schema, format_checker=checker)
    return [f"{list(error.absolute_path)}: {error.message}" for error in validator.iter_errors(value)]


def test_logs_are_valid(peers: Peers, tmp_path: Path) -> None:
    found = located(tmp_path / "t.jsonl", session())
    remarks = (
        Remark(str(tmp_path / "t.jsonl"), "cut off"),
        Remark("gone.jsonl", "no such file", "not judged"),
    )
    absent = Entry("ff", "PROTO-009", "x", 1, "warning", "server", "R-1")
    gone = Entry("fe", "HOUSE-001", "a rule that is gone", 2)
    marked = Baseline("b", {found[0].fingerprint: Entry(found[0].fingerprint, "", "", 1, why="soon")}).marked(
        found
    )
    logs = (
        log((), base=tmp_path, exit_code=0),
        log(found, base=tmp_path),
        log(found, *remarks, base=tmp_path / "elsewhere", exit_code=2),
        log(marked, base=tmp_path, fixed=(absent, gone)),
    )
    assert [faults(peers, one) for one in logs] == [[], [], [], []]

    broken = log(found, base=tmp_path)
    broken["runs"][0]["results"][0]["level"] = "info"
    assert len(faults(peers, broken)) == 1


def test_a_result_stands_at_the_line_that_records_its_frame(tmp_path: Path) -> None:
    path = tmp_path / "in a folder" / "t.jsonl"
    path.parent.mkdir()
    found = located(path, session(pings=2))
    results = log(found, base=tmp_path)["runs"][0]["results"]
    assert [result["ruleId"] for result in results] == ["SCHEMA-004", "SCHEMA-004", "PROTO-007"]
    lines = path.read_text(encoding="utf-8").splitlines()
    location: dict[str, Any]
    for result, one in zip(results, found, strict=True):
        (location,) = result["locations"]
        place = location["physicalLocation"]
        assert place["artifactLocation"]["uri"] == "in%20a%20folder/t.jsonl"
        line: int = place["region"]["startLine"]
        assert json.loads(lines[line - 1])["seq"] == one.finding.frame
        assert location["logicalLocations"][0]["name"] == f"frame {one.finding.frame}"
    request: dict[str, Any]
    (request,) = results[-1]["relatedLocations"]
    line = request["physicalLocation"]["region"]["startLine"]
    asked = json.loads(lines[line - 1])
    assert (asked["seq"], asked["message"]["method"]) == (found[-1].finding.related[0], "tools/call")


def test_a_rule_comes_with_its_text_and_the_page_it_rests_on(tmp_path: Path) -> None:
    run = log(located(tmp_path / "t.jsonl", session()), base=tmp_path)["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["PROTO-007", "SCHEMA-004"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    rule = KNOWN.rules["PROTO-007"]
    told = rules[0]
    assert (told["name"], told["shortDescription"]["text"]) == (rule.name, rule.summary)
    assert told["helpUri"].startswith("https://modelcontextprotocol.io/specification/2025-11-25/")
    assert rule.instead in told["help"]["text"]
    assert told["defaultConfiguration"] == {"level": "error"}


def test_every_rule_can_be_told() -> None:
    """Those with permissions alone, with pages of their own, and off by default too."""
    found = tuple(Located(Finding(code, "info", "server", "x", 0), "t", 1) for code in KNOWN.rules)
    rules = log(found, base=Path())["runs"][0]["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == sorted(KNOWN.rules)
    assert all(rule["helpUri"].startswith("https://") for rule in rules)


def test_fingerprints_tell_occurrences_apart(tmp_path: Path) -> None:
    found = located(tmp_path / "t.jsonl", session(tools=(), calls=("add", "add")))
    results = log(found, base=tmp_path)["runs"][0]["results"]
    first, second = (result["partialFingerprints"]["mcpproxyFinding/v1"] for result in results)
    assert (first, second) == (f"{found[0].fingerprint}:1", f"{found[0].fingerprint}:2")


def test_what_a_baseline_says_of_each(tmp_path: Path) -> None:
    found = located(tmp_path / "t.jsonl", session(tools=(), calls=("add", "add")))
    entry = Entry(found[0].fingerprint, "PROTO-007", "", 1, why="the client copes")
    absent = Entry("ff", "PROTO-009", "x", 1, "warning", "server", "R-1")
    marked = Baseline("b", {entry.fingerprint: entry}).marked(found)
    results = log(marked, base=tmp_path, fixed=(absent,))["runs"][0]["results"]
    assert [(result["ruleId"], result["baselineState"]) for result in results] == [
        ("PROTO-007", "unchanged"),
        ("PROTO-007", "new"),
        ("PROTO-009", "absent"),
    ]
    accepted = {"kind": "external", "status": "accepted", "justification": "the client copes"}
    assert [result["suppressions"] for result in results] == [[accepted], [], []]
    assert "baselineState" not in log(found, base=tmp_path)["runs"][0]["results"][0]


def test_what_a_recording_lacks_is_a_notification(tmp_path: Path) -> None:
    run = log((), Remark("t.jsonl", "cut off"), base=Path())["runs"][0]
    (invocation,) = run["invocations"]
    (told,) = invocation["toolExecutionNotifications"]
    assert (told["level"], told["message"]["text"]) == ("warning", "cut off")
    assert invocation["executionSuccessful"] is True
    (unjudged,) = log((), Remark("t.jsonl", "no", "not judged"), base=Path())["runs"][0]["invocations"]
    assert unjudged["executionSuccessful"] is False


def test_the_second_file_of_a_rotated_recording_is_named(tmp_path: Path) -> None:
    header, *records = session(calls=())
    counted = (
        '"frames":{"client":2,"server":1},"findings":{"error":0,"warning":0,"info":0},"judge_error":null'
    )
    first = (header, *records[:3], f'{{"type":"continued","t":35000000,"in":"t.2.jsonl",{counted}}}')
    (tmp_path / "t.2.jsonl").write_text(
        "\n".join([header.replace('"redaction"', '"continues":"t.jsonl","redaction"'), *records[3:], ""])
    )
    found = located(tmp_path / "t.jsonl", first)
    assert [(os.path.basename(one.path), one.line) for one in found] == [("t.2.jsonl", 3)] * 2


def test_what_has_no_line_has_no_region() -> None:
    one = Located(Finding("PROTO-007", "error", "server", "x", 5), "x.har", 0)
    (result,) = log((one,), base=Path.cwd())["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "x.har", "uriBaseId": "%SRCROOT%", "index": 0}
    }


def test_a_trace_elsewhere_has_a_whole_address(tmp_path: Path) -> None:
    found = located(tmp_path / "t#1.jsonl", session(calls=()))
    (artifact,) = log(found, base=tmp_path / "sub")["runs"][0]["artifacts"]
    assert artifact["location"]["uri"] == (tmp_path / "t#1.jsonl").as_uri()
