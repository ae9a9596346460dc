"""What ``mcpproxy validate`` hands to build servers: SARIF, JUnit, annotations, and what a baseline does."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import xmlschema

from mcpproxy.cli.main import main
from tests.peers.fixtures import Peers
from tests.reports.test_sarif import faults as sarif_faults
from tests.validate.trial import command, target

ENV = [f"--env={name}={value}" for name, value in target().env.items()]


def validated(folder: Path, flaw: str, *argv: str) -> int:
    """The exit code of a validation of three checks, recorded in a folder of its own."""
    trace = folder / f"{len(list(folder.iterdir()))}.jsonl"
    return validated_untraced(flaw, f"--trace={trace}", *argv)


def validated_untraced(flaw: str, *argv: str) -> int:
    fixed = (*ENV, "--revision=2025-11-25", "--only=ping,stdout,unknown-method")
    return main(["validate", *fixed, *argv, "--", *command(flaw)])


def test_sarif_is_valid_and_points_into_the_recording(
    peers: Peers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert validated(tmp_path, "traceback-on-stdout", "--format=sarif", "-o", "log.sarif") == 1
    log: dict[str, Any] = json.loads((tmp_path / "log.sarif").read_text())
    assert sarif_faults(peers, log) == []
    (result,) = log["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == ("STDIO-002", "error")
    place = result["locations"][0]["physicalLocation"]
    record = (
        (tmp_path / place["artifactLocation"]["uri"])
        .read_text()
        .splitlines()[place["region"]["startLine"] - 1]
    )
    assert "Traceback" in record
    assert json.loads(record)["seq"] == result["properties"]["frame"]


def test_without_a_trace_sarif_names_recordings_and_no_path_of_this_machine(
    peers: Peers, capsys: pytest.CaptureFixture[str]
) -> None:
    assert validated_untraced("traceback-on-stdout", "--format=sarif") == 1
    out = capsys.readouterr().out
    log: dict[str, Any] = json.loads(out)
    assert sarif_faults(peers, log) == []
    (result,) = log["runs"][0]["results"]
    assert re.fullmatch(
        r"[\w-]+\.jsonl", result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    )
    assert "file://" not in out


def test_a_check_that_rests_on_no_rule_goes_by_its_name(peers: Peers, tmp_path: Path) -> None:
    assert (
        validated(
            tmp_path,
            "small-buffer",
            "--only=large-message",
            "--format=sarif",
            "-o",
            str(tmp_path / "log.sarif"),
        )
        == 1
    )
    log: dict[str, Any] = json.loads((tmp_path / "log.sarif").read_text())
    assert sarif_faults(peers, log) == []
    assert {result["ruleId"] for result in log["runs"][0]["results"]} == {"large-message"}


def test_junit_is_valid_and_has_a_case_for_each_check(peers: Peers, tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    assert validated(tmp_path, "traceback-on-stdout", "--format=junit", "-o", str(report)) == 1
    text = report.read_text()
    xmlschema.XMLSchema10(str(peers.report_schemas() / "jenkins-junit.xsd")).validate(text)
    assert '<testcase classname="lifecycle (2025-11-25)" name="ping"' in text
    assert text.count("<failure ") == 1


def test_junit_names_the_recording_of_a_failure_and_no_folder_of_this_machine(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert validated_untraced("traceback-on-stdout", "--format=junit") == 1
    (failed,) = ElementTree.fromstring(capsys.readouterr().out).iter("failure")
    assert re.search(r"^frames? [\d, ]+ of [\w-]+  STDIO-002", failed.text or "", re.MULTILINE)


def test_annotations(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert validated(tmp_path, "traceback-on-stdout", "--format=github") == 1
    (said,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("::")]
    head, _, message = said.partition("::error ")[2].partition("::")
    assert head == "title=STDIO-002 stray-stdout"
    assert re.match(r"frame \d+ of \d+\.stdout: ", message)
    assert "%0Ahttps://modelcontextprotocol.io/specification/2025-11-25/" in message


def test_a_server_that_does_not_start_is_annotated(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    trace = f"--trace={tmp_path / 's.jsonl'}"
    assert main(["validate", trace, "--format=github", "--", "python3", "-c", "raise SystemExit(3)"]) == 2
    captured = capsys.readouterr()
    assert re.fullmatch(r"::error title=mcpproxy validate::.*exit code 3\b.*\n", captured.out)
    assert captured.err.startswith("mcpproxy: ")


def test_a_note_on_the_run_is_called_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert validated(tmp_path, "result-for-any-method", "--format=github", "--revision=auto") == 0
    notes = [line for line in capsys.readouterr().out.splitlines() if line.startswith("::notice")]
    assert [line.partition(" so its answer")[0] for line in notes] == [
        "::notice title=note::the server answers unknown methods with a result,"
    ]


def test_what_a_baseline_accepts_does_not_count(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    baseline = f"--baseline={tmp_path / 'accepted.json'}"
    assert validated(tmp_path, "traceback-on-stdout", baseline, "--write-baseline") == 0
    assert validated(tmp_path, "traceback-on-stdout", baseline) == 0
    out = capsys.readouterr().out
    *_, marks, blank, summary = out.splitlines()
    assert "x" in marks.partition("  ")[2]
    assert blank == ""
    assert re.fullmatch(r"valid: \d+ passed, 1 known in .+", summary)
    assert validated(tmp_path, "traceback-on-stdout", baseline, "-v") == 0
    assert "  known transport   stdout: " in capsys.readouterr().out
    written = (tmp_path / "accepted.json").read_text()
    assert validated(tmp_path, "traceback-on-stdout", baseline, "--write-baseline") == 0
    assert capsys.readouterr().err.endswith("accepted.json: 1 finding accepted (1 kind: 0 new, 0 gone)\n")
    assert (tmp_path / "accepted.json").read_text() == written
    assert str(tmp_path) not in written
    (entry,) = json.loads(written)["findings"]
    assert (entry["rule"], entry["requirement"]) == ("STDIO-002", "R-057")
    # Another flaw is new, and the one that is gone is told.
    assert validated(tmp_path, "odd-method-refusal", baseline, "--strict") == 1
    assert "fixed: STDIO-002" in capsys.readouterr().err


def test_a_baseline_that_is_none(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[]")
    assert validated(tmp_path, "", f"--baseline={tmp_path / 'x.json'}") == 2
    assert "is not a baseline of mcpproxy" in capsys.readouterr().err
