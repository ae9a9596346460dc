"""``mcpproxy check`` on build servers: reports in files, annotations, and findings that are accepted."""

import json
import os
from pathlib import Path
from xml.etree import ElementTree

import pytest

from mcpproxy.base.style import PLAIN
from mcpproxy.cli import output
from mcpproxy.cli.arguments import UsageError
from mcpproxy.cli.checking import check_report, validation_report
from mcpproxy.cli.report_options import FINDING_FORMATS
from mcpproxy.judge.ruleset import catalogue
from mcpproxy.peers.validate.outcome import Validation
from mcpproxy.read.reports.judged_traces import JudgedTraces, Unjudged
from tests.cli import recordings
from tests.cli.conftest import Mcpproxy
from tests.cli.recordings import CLEAN, FAULTY, HANDSHAKE
from tests.reports.sessions import session

KNOWN = catalogue.load()

ONE = "1 error in 1 trace, 5 frames, revision 2025-11-25"


@pytest.fixture
def faulty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A faulty recording in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    recordings.write(tmp_path / "t.jsonl", FAULTY)
    return "t.jsonl"


def test_a_report_goes_into_a_file_and_its_summary_to_stderr(mcpproxy: Mcpproxy, faulty: str) -> None:
    checked = mcpproxy("check", faulty, "--format", "sarif", "-o", "t.sarif")
    assert (checked.code, checked.out) == (1, "")
    assert checked.err.splitlines() == [
        f"mcpproxy: {ONE}",
        "mcpproxy: What a rule means: mcpproxy explain PROTO-007",
        "mcpproxy: report: t.sarif",
    ]
    (run,) = json.loads(Path("t.sarif").read_text(encoding="utf-8"))["runs"]
    (result,) = run["results"]
    assert (result["ruleId"], run["invocations"][0]["exitCode"]) == ("PROTO-007", 1)
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "t.jsonl"
    assert sorted(os.listdir()) == ["t.jsonl", "t.sarif"]


@pytest.mark.parametrize("format", ["text", "json", "junit", "github"])
def test_what_is_written_is_what_would_be_printed(mcpproxy: Mcpproxy, faulty: str, format: str) -> None:
    printed = mcpproxy("check", faulty, "--format", format)
    written = mcpproxy("check", faulty, "--format", format, "--output", "report")
    assert (written.code, written.out) == (1, "")
    report = Path("report").read_text(encoding="utf-8")
    if format == "junit":
        case, printed_case = (
            ElementTree.fromstring(text).find(".//testcase") for text in (report, printed.out)
        )
        assert case is not None
        assert printed_case is not None
        assert ElementTree.tostring(case) == ElementTree.tostring(printed_case)
    else:
        assert report == printed.out


def test_a_report_that_cannot_be_written_leaves_what_was_there(
    mcpproxy: Mcpproxy, faulty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("report").write_text("before")
    refused = mcpproxy("check", faulty, "-o", "no/such/folder/report")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == "mcpproxy: no/such/folder/report: its folder does not exist; create it first\n"
    assert mcpproxy("check", faulty, "-o", ".").err.startswith("mcpproxy: .: is a folder; ")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    refused = mcpproxy("check", faulty, "-o", "report")
    assert refused.code == 2
    assert refused.err.startswith("mcpproxy: report: no space left on device; ")
    assert sorted(os.listdir()) == ["report", "t.jsonl"]
    assert Path("report").read_text() == "before"


@pytest.mark.skipif(os.name != "posix", reason="needs symbolic links and /dev/null")
def test_a_link_is_not_written_through_and_a_device_stays_a_device(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("before")
    (tmp_path / "link").symlink_to("real")
    refusal = "is a symbolic link, which is not followed; name the file"
    with pytest.raises(UsageError, match=refusal):
        output.check_writable(str(tmp_path / "link"))
    with pytest.raises(UsageError, match=refusal):
        output.write(str(tmp_path / "link"), ["after"])
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "before"
    output.write(os.devnull, ["x"])
    assert not Path(os.devnull).is_file()
    with pytest.raises(UsageError, match="its folder does not exist"):
        output.check_writable(str(tmp_path / "none" / "report"))


@pytest.mark.skipif(os.name != "posix", reason="needs symbolic links")
@pytest.mark.parametrize("folder", ["/dev", "/dev/fd", "/proc", "/proc/self/fd"])
def test_a_link_of_the_system_is_written_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    (tmp_path / "link").symlink_to("real")
    monkeypatch.setattr(os.path, "realpath", {str(tmp_path): folder}.__getitem__)
    output.write(str(tmp_path / "link"), ["after"])
    assert (tmp_path / "real").read_text() == "after\n"


@pytest.mark.skipif(os.name != "posix", reason="needs symbolic links")
@pytest.mark.parametrize("folder", ["/developers/ada", "/devices", "/process"])
def test_a_folder_whose_name_begins_like_one_of_the_system_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    (tmp_path / "link").symlink_to("real")
    monkeypatch.setattr(os.path, "realpath", {str(tmp_path): folder}.__getitem__)
    with pytest.raises(UsageError, match="is a symbolic link"):
        output.write(str(tmp_path / "link"), ["after"])


def test_annotations_and_the_summary_page(
    mcpproxy: Mcpproxy, faulty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "summary.md").write_text("# before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path.parent))
    checked = mcpproxy("check", faulty, "--format", "github")
    assert (checked.code, checked.err) == (1, "")
    first, second, *_ = checked.out.splitlines()
    head = f"::error file={tmp_path.name}/t.jsonl,line=6,title=PROTO-007 mismatched-response-id::frame 5: "
    assert first.startswith(head)
    assert second == ONE
    page = (tmp_path / "summary.md").read_text(encoding="utf-8").splitlines()
    assert page[:2] == ["# before", r"## mcpproxy\: 1 error in 1 trace\, 5 frames\, revision 2025\-11\-25"]
    assert page[5].startswith(
        r"| error | [PROTO\-007 mismatched\-response\-id](https://modelcontextprotocol.io/"
    )

    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "no" / "summary.md"))
    checked = mcpproxy("check", faulty, "--format", "github")
    assert checked.code == 1
    assert checked.err.endswith("no such file or directory; name a file in a folder that you may write to\n")
    assert checked.out.startswith("::error ")


def test_what_is_accepted_does_not_count(mcpproxy: Mcpproxy, faulty: str, tmp_path: Path) -> None:
    accepted = mcpproxy("check", faulty, "--baseline", "b.json", "--write-baseline")
    assert (accepted.code, accepted.err) == (
        0,
        "mcpproxy: b.json: 1 finding accepted (1 kind: 1 new, 0 gone)\n",
    )
    assert accepted.out == "no findings, 1 known in 1 trace, 5 frames, revision 2025-11-25\n"

    again = mcpproxy("check", faulty, "--baseline", "b.json")
    assert (again.code, again.err, again.out) == (0, "", accepted.out)

    recordings.write(tmp_path / "u.jsonl", session(tools=("add",)))
    more = mcpproxy("check", faulty, "u.jsonl", "--baseline", "b.json", "--select", "PROTO-007,SCHEMA-004")
    assert more.code == 1
    assert [line.split(" ")[2] for line in more.out.splitlines() if line.startswith("u.jsonl:")] == [
        *("SCHEMA-004", "PROTO-007"),
    ]
    assert "2 errors, 1 known in 2 traces" in more.out


def test_programs_are_told_what_is_known_new_and_fixed(
    mcpproxy: Mcpproxy, faulty: str, tmp_path: Path
) -> None:
    mcpproxy("check", faulty, "--baseline", "b.json", "--write-baseline")
    recordings.write(tmp_path / "t.jsonl", CLEAN)
    fixed = mcpproxy("check", faulty, "--baseline", "b.json", "--format", "json")
    assert fixed.code == 0
    assert fixed.err.startswith("mcpproxy: b.json: fixed: PROTO-007 server answered ")
    report = json.loads(fixed.out)
    (gone,) = report["baseline"].pop("fixed_findings")
    assert report["baseline"] == {"known": 0, "new": 0, "fixed": 1}
    assert gone["rule"] == "PROTO-007"

    recordings.write(tmp_path / "t.jsonl", FAULTY)
    report = json.loads(mcpproxy("check", faulty, "--baseline", "b.json", "--format", "json").out)
    (trace,) = report["traces"]
    assert (trace["findings"], [one["rule"] for one in trace["known"]]) == ([], ["PROTO-007"])
    assert report["baseline"] == {"known": 1, "new": 0, "fixed": 0, "fixed_findings": []}
    assert report["summary"]["error"] == 0
    assert "baseline" not in json.loads(mcpproxy("check", faulty, "--format", "json").out)


def test_what_was_not_judged_is_not_fixed(mcpproxy: Mcpproxy, faulty: str, tmp_path: Path) -> None:
    mcpproxy("check", faulty, "--baseline", "b.json", "--write-baseline")
    before = Path("b.json").read_text()
    assert mcpproxy("check", faulty, "--baseline", "b.json", "--ignore", "PROTO").err == ""
    rewritten = mcpproxy("check", faulty, "--baseline", "b.json", "--write-baseline", "--ignore", "PROTO")
    assert (rewritten.code, rewritten.err) == (
        0,
        "mcpproxy: b.json: 0 findings accepted (1 kind: 0 new, 0 gone)\n",
    )
    assert Path("b.json").read_text() == before

    for unasked in ("APP-001", "HOUSE-001"):  # off by default, and of a folder that is not given
        Path("c.json").write_text(
            before.replace("PROTO-007", unasked).replace('"fingerprint": "', '"fingerprint": "0')
        )
        assert "fixed" not in mcpproxy("check", faulty, "--baseline", "c.json").err

    recordings.write(tmp_path / "u.jsonl", ("hello",))
    unjudged = mcpproxy("check", "u.jsonl", "--baseline", "b.json", "--write-baseline")
    assert unjudged.code == 2
    assert unjudged.err.endswith("mcpproxy: b.json: not written; every trace must be judged first\n")
    assert Path("b.json").read_text() == before


def test_baselines_that_cannot_be_used(mcpproxy: Mcpproxy, faulty: str) -> None:
    assert mcpproxy("check", faulty, "--baseline", "none.json").code == 2
    foreign = mcpproxy("check", faulty, "--baseline", faulty, "--write-baseline")
    assert foreign.code == 2
    assert foreign.err == "mcpproxy: t.jsonl: is not a baseline of mcpproxy; --write-baseline writes one\n"
    assert Path(faulty).read_text().splitlines() == list(FAULTY)
    alone = mcpproxy("check", faulty, "--write-baseline")
    assert (alone.code, alone.err.count("\n")) == (2, 1)
    assert alone.err.startswith("mcpproxy: --write-baseline: goes together with --baseline FILE; ")


def test_an_incomplete_recording_is_told_in_every_format(
    mcpproxy: Mcpproxy, faulty: str, tmp_path: Path
) -> None:
    recordings.write(tmp_path / "t.jsonl", HANDSHAKE)
    note = "no close record: the recording was cut off"
    for format in ("text", "json", "sarif", "junit", "github"):
        checked = mcpproxy("check", faulty, "--format", format)
        assert (checked.code, note in checked.out) == (0, True), format


@pytest.mark.parametrize("command", ["check", "validate"])
def test_a_format_has_a_report_of_its_own(
    capsys: pytest.CaptureFixture[str], faulty: str, command: str
) -> None:
    judged = JudgedTraces((), (Unjudged(faulty, "no such file"),))
    tried = Validation("server.py", "stdio", {}, (), (), (), notes=("cut short",))
    formats: dict[str, str] = {}
    for format in FINDING_FORMATS:
        if command == "check":
            check_report.report(judged, KNOWN, format, None, PLAIN, streamed=False)
        else:
            validation_report.report(tried, KNOWN, format, None, PLAIN, fixed=None)
        printed = capsys.readouterr().out
        same = formats.setdefault(printed, format)
        assert same == format, f"{format} prints what {same} prints"
