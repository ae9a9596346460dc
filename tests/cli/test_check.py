"""``mcpproxy check``: the findings of a file, whatever the file says about itself."""

import fcntl
import json
import shlex
from pathlib import Path
from xml.etree import ElementTree

import pytest

from mcpproxy.cli.arguments import UsageError
from mcpproxy.cli.find_traces import expand
from mcpproxy.judge.ruleset import ruleset
from mcpproxy.judge.ruleset.selection import Selection
from mcpproxy.read.judging import judge
from mcpproxy.read.opening import open_trace
from mcpproxy.read.view.folder import recording
from mcpproxy.read.view.view import open_view
from tests import house
from tests.cli import recordings
from tests.cli.catalogues import SMALL
from tests.cli.conftest import Mcpproxy
from tests.cli.recordings import CLEAN, FAULTY, HANDSHAKE, HEADER, LIST_TOOLS, close, finding, frame
from tests.documents import ROOT


def test_a_clean_trace(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    checked = mcpproxy("check", recordings.write(tmp_path / "t.jsonl", CLEAN), "--strict")
    assert (checked.code, checked.err) == (0, "")
    assert checked.out == "no findings in 1 trace, 5 frames, revision 2025-11-25\n"


def test_reads_like_a_linter(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    path = recordings.write(tmp_path / "t.jsonl", FAULTY)
    checked = mcpproxy("check", path)
    assert (checked.code, checked.err) == (1, "")
    first, second, *rest = checked.out.splitlines()
    assert first.startswith(f"{path}:6: error PROTO-007 frame 5: server answered ")
    assert second.startswith("    ")
    assert "https://modelcontextprotocol.io/specification/2025-11-25/" in second
    assert rest[-2:] == [
        "1 error in 1 trace, 5 frames, revision 2025-11-25",
        "What a rule means: mcpproxy explain PROTO-007",
    ]


def test_failed_calls_are_no_findings_and_yet_named(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    session = (*CLEAN[:-1], close(3, 2, calls=(7, 2, 1)))
    path = recordings.write(tmp_path / "a failed call.jsonl", session)
    checked = mcpproxy("check", path)
    assert checked.code == 0
    assert checked.out.splitlines() == [
        "no findings in 1 trace, 5 frames, revision 2025-11-25",
        f"2 of 7 calls failed, 1 unanswered: mcpproxy show '{path}'",
    ]
    both = mcpproxy("check", path, recordings.write(tmp_path / "another.jsonl", session))
    assert (
        both.out.splitlines()[-1] == f"4 of 14 calls failed, 2 unanswered: mcpproxy list {tmp_path} --failed"
    )


def test_a_server_that_did_not_begin_is_named(
    mcpproxy: Mcpproxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = '{"type":"stderr","t":1000,"text":"Traceback (most recent call last):"}'
    left = '{"type":"eof","t":900,"from":"client"}'
    sessions = {
        "no such command": recordings.without_a_message("2026-11-21T10:20:30Z"),
        "no such module": (HEADER, said, close(0, 0, code=1)),
        "closed at once": (HEADER, said, close(0, 0)),
        "left at once": (HEADER, left, said, close(0, 0, code=1)),
        "interrupted": (HEADER, '{"type":"signal","t":900,"signal":"SIGINT"}', said, close(0, 0, code=1)),
    }
    paths = [recordings.write(tmp_path / f"{name}.jsonl", records) for name, records in sessions.items()]
    nothing, none = "nothing to judge in 1 trace, 0 frames", "no findings in 1 trace, 0 frames"
    assert [mcpproxy("check", path).code for path in paths] == [2, 2, 0, 0, 0]
    assert [mcpproxy("check", path).out.splitlines() for path in paths] == [
        [nothing, f"the server could not be started: mcpproxy show '{paths[0]}'"],
        [nothing, f"the server exited with 1: mcpproxy show '{paths[1]}'"],
        [none],
        [none],
        [none],
    ]
    assert [recording(path).has_not_begun for path in paths] == [True, True, False, False, False]
    for path in paths:
        with open_view(path) as view:
            assert bool(view.not_begun) == recording(path).has_not_begun
    assert mcpproxy("check", *paths).out.splitlines() == [
        "no findings in 5 traces, 0 frames",
        f"2 servers could not be started, or failed before any message: mcpproxy list {tmp_path} --failed",
    ]
    to_a_file = mcpproxy("check", paths[0], "--format", "json", "-o", str(tmp_path / "report.json"))
    assert f"the server could not be started: mcpproxy show '{paths[0]}'" in to_a_file.err
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    assert "the server could not be started" in mcpproxy("check", paths[0], "--format", "github").out


def test_every_report_says_that_a_server_did_not_begin(
    mcpproxy: Mcpproxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    records = recordings.without_a_message("2026-11-21T10:20:30Z", "npxx", "no such command")
    failed, good = (
        recordings.write(tmp_path / "t.jsonl", records),
        recordings.write(tmp_path / "u.jsonl", CLEAN),
    )
    how = "the server could not be started: npxx: no such command"

    def report(format: str) -> str:
        said = mcpproxy("check", failed, good, "--format", format)
        assert said.code == 2
        return said.out

    first, second = json.loads(report("json"))["traces"]
    assert (first["not_begun"], "not_begun" in second) == (how, False)
    assert f"::error file=t.jsonl,title=failed before any message::{how}\n" in report("github")
    suites = ElementTree.fromstring(report("junit"))
    assert [suite.get("errors") for suite in suites] == ["1", "0"]
    assert [case.get("name") for case in suites.iter("testcase")] == ["the server begins", "no findings"]
    assert [error.get("message") for error in suites.iter("error")] == [how]
    (invocation,) = json.loads(report("sarif"))["runs"][0]["invocations"]
    (notification,) = invocation["toolExecutionNotifications"]
    assert (notification["level"], notification["message"]["text"]) == ("error", how)
    assert (invocation["exitCode"], invocation["executionSuccessful"]) == (2, False)


def test_a_call_that_waits_or_was_cut_off_is_named(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    path = recordings.write(tmp_path / "t.jsonl", (*HANDSHAKE, frame(4, "client", LIST_TOOLS, ms=360)))
    assert mcpproxy("check", path).out.splitlines()[-1] == f"1 of 2 calls unanswered: mcpproxy show {path}"
    failed = recordings.write(tmp_path / "u.jsonl", (*CLEAN[:-1], close(3, 2, calls=(7, 2, 1))))
    (tmp_path / "t.jsonl.journal").mkdir()
    with (tmp_path / "t.jsonl.journal" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        last = mcpproxy("check", path).out.splitlines()[-1]
        both = mcpproxy("check", path, failed).out.splitlines()
    assert last.startswith("1 of 2 calls waiting for ")
    assert last.endswith(f": mcpproxy show {path}")
    assert both[-2] == f"2 of 7 calls failed, 1 unanswered: mcpproxy show {failed}"
    assert both[-1].startswith("1 of 2 calls waiting for ")


def test_a_recording_that_goes_on_is_judged_so_far_and_says_so(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    path = recordings.write(tmp_path / "t.jsonl", CLEAN[:-1])
    ended = recordings.write(tmp_path / "u.jsonl", CLEAN)
    (tmp_path / "t.jsonl.journal").mkdir()
    with (tmp_path / "t.jsonl.journal" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        said = mcpproxy("check", path)
        both = mcpproxy("check", path, ended).out.splitlines()
        objects = json.loads(mcpproxy("check", path, ended, "--format", "json").out)["traces"]
    assert (said.code, said.err) == (0, "")
    note, counts, goes_on = said.out.splitlines()
    assert (note, counts.split()[:2]) == (f"{path}: still recording", ["no", "findings"])
    assert goes_on == "The recording goes on: what comes after this was not judged."
    assert both[-1] == "1 recording of them goes on: what comes after this was not judged."
    assert [each.get("running") for each in objects] == [True, None]
    assert objects[0]["notes"] == ["still recording"]


@pytest.mark.parametrize("name", ["faulty-2025-11-25", "example-http-2025-03-26"])
def test_every_format_names_the_same_line(
    mcpproxy: Mcpproxy, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(ROOT)
    path = f"recordings/{name}.jsonl"
    as_text = mcpproxy("check", str(ROOT / path), "--extend-select", "EXT").out
    as_json = mcpproxy("check", path, "--extend-select", "EXT", "--format", "json").out
    as_commands = mcpproxy("check", path, "--extend-select", "EXT", "--format", "github").out
    found = json.loads(as_json)["traces"][0]["findings"]
    assert found
    # In the text, several findings of a line may be one, with a count.
    places = [line.partition(": ")[0] for line in as_text.splitlines() if line.startswith(path)]
    assert list(dict.fromkeys(places)) == list(dict.fromkeys(f"{path}:{one['line']}" for one in found))
    assert {f"file={path},line={one['line']},title={one['rule']}" for one in found} == {
        line.partition(" ")[2].partition(" ")[0] for line in as_commands.splitlines() if "title=" in line
    }


def test_the_next_step_names_the_folder_of_rules(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    folder = house.build(tmp_path)
    path = recordings.write(tmp_path / "t.jsonl", FAULTY)
    checked = mcpproxy("check", path, "--rules", folder, "--select", "HOUSE,PROTO")
    last = checked.out.splitlines()[-1]
    assert last.endswith(f" --rules {folder}")
    assert mcpproxy(*shlex.split(last.partition("mcpproxy ")[2])).code == 0


def test_recorded_findings_are_not_believed(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    lie = finding("PROTO-001", 2, "not so")
    path = recordings.write(tmp_path / "t.jsonl", (*CLEAN[:-1], lie, close(3, 2, errors=1)))
    assert mcpproxy("check", path).code == 0


def test_json(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    path = recordings.write(tmp_path / "t.jsonl", FAULTY)
    checked = mcpproxy("check", path, "--format", "json")
    assert checked.code == 1
    report = json.loads(checked.out)
    (trace,) = report["traces"]
    assert {name: trace[name] for name in ("path", "complete", "revision", "frames", "notes")} == {
        "path": path,
        "complete": True,
        "revision": "2025-11-25",
        "frames": 5,
        "notes": [],
    }
    (found,) = trace["findings"]
    assert (found["rule"], found["severity"], found["blame"], found["frame"]) == (
        "PROTO-007",
        "error",
        "server",
        5,
    )
    assert set(found) == {
        *("rule", "severity", "blame", "message", "frame", "related", "pointer", "revision", "source"),
        *("requirement", "file", "line", "fingerprint"),
    }
    assert (found["file"], found["line"], len(found["fingerprint"])) == (path, 6, 32)
    assert (report["summary"]["error"], report["summary"]["exit_code"]) == (1, 1)


def test_a_folder_is_every_trace_below_it(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    (tmp_path / "deeper").mkdir()
    one = recordings.write(tmp_path / "a.jsonl", CLEAN)
    two = recordings.write(tmp_path / "deeper" / "b.jsonl", FAULTY)
    (tmp_path / "notes.txt").write_text("not a trace")
    report = json.loads(mcpproxy("check", str(tmp_path), one, "--format=json").out)
    assert [trace["path"] for trace in report["traces"]] == [one, two]
    assert report["summary"]["frames"] == 10


def test_an_incomplete_recording_says_so_in_words(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    path = recordings.write(tmp_path / "t.jsonl", HANDSHAKE)
    with Path(path).open("a") as file:
        file.write('{"type":"frame","seq":4,"t":36')
    checked = mcpproxy("check", path)
    assert checked.code == 0
    assert f"{path}: incomplete: line 5: cut off mid-record; 4 records read\n" in checked.out
    assert f"{path}: incomplete: no close record: the recording was cut off\n" in checked.out
    assert "The recording is incomplete: what was not recorded was not judged.\n" in checked.out


def test_where_nothing_was_judged_nothing_is_counted(mcpproxy: Mcpproxy) -> None:
    checked = mcpproxy("check", "weathr")
    assert (checked.code, checked.out) == (2, "")
    assert checked.err.startswith("mcpproxy: weathr: no recording, label or file has this name")
    assert json.loads(mcpproxy("check", "weathr", "--format", "json").out)["unreadable"]


def test_one_unreadable_trace_does_not_hide_the_others(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    good = recordings.write(tmp_path / "a.jsonl", FAULTY)
    bad = recordings.write(tmp_path / "b.jsonl", ("hello",))
    checked = mcpproxy("check", str(tmp_path))
    assert checked.code == 2
    assert f"{good}:6: error PROTO-007" in checked.out
    assert "1 trace could not be judged.\n" in checked.out
    assert checked.err.startswith(f"mcpproxy: {bad}:1: not an mcpproxy trace; ")
    report = json.loads(mcpproxy("check", str(tmp_path), "--format", "json").out)
    assert [unreadable["path"] for unreadable in report["unreadable"]] == [bad]


CHOICES: dict[str, tuple[list[str] | None, list[str] | None, list[str]]] = {
    "everything": (None, None, ["PROTO-007", "PROTO-009", "SCHEMA-003"]),
    "a code": (["PROTO-007"], None, ["PROTO-007"]),
    "a code in small letters": (["proto-007"], None, ["PROTO-007"]),
    "a name": (["undeclared-capability"], None, ["PROTO-009"]),
    "a family": (["PROTO"], None, ["PROTO-007", "PROTO-009"]),
    "a list": (["SCHEMA-003, PROTO-007"], None, ["PROTO-007", "SCHEMA-003"]),
    "two options": (["SCHEMA"], None, ["SCHEMA-003"]),
    "all but one": (None, ["response-id-mismatch"], ["PROTO-009", "SCHEMA-003"]),
    "a family but one": (["PROTO"], ["PROTO-009"], ["PROTO-007"]),
    "nothing at all": ([""], None, []),
}


@pytest.mark.parametrize(("select", "ignore", "taken"), CHOICES.values(), ids=CHOICES)
def test_selection(select: list[str] | None, ignore: list[str] | None, taken: list[str]) -> None:
    chosen = Selection.of(SMALL, select, ignore)
    assert [code for code in SMALL.rules if chosen.takes(code)] == taken


@pytest.mark.parametrize(
    ("named", "guess"),
    [("PROTO-07", "PROTO-007"), ("PROTOS", "PROTO"), ("undeclared-capabilty", "undeclared-capability")],
)
def test_selection_of_nothing_known(named: str, guess: str) -> None:
    with pytest.raises(UsageError, match=f"did you mean {guess}\\?"):
        Selection.of(SMALL, None, [f"PROTO-007,{named}"])


def test_ignored_findings_do_not_count(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    path = recordings.write(tmp_path / "t.jsonl", FAULTY)
    assert mcpproxy("check", path, "--ignore", "PROTO").code == 0
    assert mcpproxy("check", path, "--select", "SCHEMA").code == 0
    assert mcpproxy("check", path, "--select", "PROTO-007,SCHEMA").code == 1


def test_warnings_count_when_strict(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    unknown = '{"jsonrpc":"2.0","method":"notifications/unheard_of"}'
    path = recordings.write(
        tmp_path / "t.jsonl", (*HANDSHAKE, frame(4, "server", unknown, ms=355), close(2, 2))
    )
    relaxed, strict = mcpproxy("check", path), mcpproxy("check", path, "--strict")
    assert (relaxed.code, strict.code) == (0, 1)
    assert f"{path}:5: warning PROTO-006 frame 4: server" in relaxed.out
    assert relaxed.out == strict.out


def test_a_journal_stands_for_its_trace(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    path = recordings.write(tmp_path / "t.jsonl", CLEAN)
    assert mcpproxy("check", f"{path}.journal").out.startswith("no findings in 1 trace")


def test_a_journal_below_a_folder_is_found(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl.journal").mkdir()
    (tmp_path / "t.jsonl.journal" / "00000001").touch()
    assert expand(str(tmp_path)) == [str(tmp_path / "t.jsonl")]


def test_an_empty_session_is_clean(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    path = recordings.write(tmp_path / "t.jsonl", (HEADER, close(0, 0)))
    assert mcpproxy("check", path).out == "no findings in 1 trace, 0 frames\n"


def test_a_recording_is_whole_although_an_earlier_message_is_blamed_at_its_end(
    mcpproxy: Mcpproxy, tmp_path: Path
) -> None:
    ends = ('{"type":"eof","t":380000000,"from":"server"}', close(3, 1, code=3))
    asked = frame(4, "client", LIST_TOOLS, ms=360)
    path = recordings.write(tmp_path / "t.jsonl", (*HANDSHAKE, asked, *ends))
    report = json.loads(mcpproxy("check", path, "--format", "json").out)
    (found,) = report["traces"][0]["findings"]
    assert (found["frame"], found["line"]) == (4, 5)
    assert report["summary"]["incomplete"] == 0


def test_a_part_without_recordings_is_said_to_have_none(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    recordings.write(tmp_path / "only.jsonl", recordings.FAULTY)
    ran = [mcpproxy("check", str(tmp_path), "--shard", f"{part}/2") for part in (0, 1)]
    [empty] = [one for one in ran if not one.out]
    assert (empty.code, empty.err.count("has none of the 1 recording\n")) == (0, 1)


def test_progress_is_told_also_where_records_are_no_frames(tmp_path: Path) -> None:
    lines = [f'{{"type":"stderr","t":{360_000_000 + line},"text":"warming up"}}' for line in range(5000)]
    path = recordings.write(tmp_path / "t.jsonl", (*HANDSHAKE, *lines, close(2, 1)))
    told: list[int] = []
    judge(open_trace(path), ruleset.load(), Selection(frozenset()), progress=told.append)
    assert len(told) == 2
    assert 0 < told[0] < told[1] < Path(path).stat().st_size
