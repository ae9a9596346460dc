"""A server that could not be started: every command says why, from the recording alone."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mcpproxy.read.view.folder import recording
from mcpproxy.read.view.view import open_view
from mcpproxy.record.relay import journal
from mcpproxy.show.tui.session_lines import SessionItem, overview_lines
from tests.cli import recordings
from tests.cli.conftest import Mcpproxy
from tests.recorder.journals import START, JournalFolder, record, stderr

HOW = "the server could not be started: npxx: no such command; did you mean npx?"
STARTED_AT = "2026-11-21T10:20:30Z"


@pytest.fixture
def failed(tmp_path: Path) -> str:
    """The recording of a misspelt command."""
    records = recordings.without_a_message(STARTED_AT, "npxx", "no such command; did you mean npx?")
    (tmp_path / "folder").mkdir()
    return recordings.write(tmp_path / "folder" / "npxx.jsonl", records)


def test_the_reason_is_recorded_as_it_is_told_on_stderr(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    (tmp_path / "npx").write_text("#!/bin/sh\n")
    (tmp_path / "npx").chmod(0o755)
    path, env = str(tmp_path / "t.jsonl"), {"PATH": str(tmp_path)}
    command = [sys.executable, "-m", "mcpproxy", "run", "--trace", path, "--", "npxx", "--token", "abcdef"]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env, check=False)
    assert ended.returncode == 127
    assert b"mcpproxy: npxx: no such command; did you mean npx?\n" in ended.stderr
    shown = mcpproxy("show", "--follow", path).out  # until the recorder is done
    assert f"\n{HOW}\n" in shown
    assert "abcdef" not in Path(path).read_text()
    last = json.loads(Path(path).read_text().splitlines()[-1])
    assert (last["ending"], last["reason"]) == ("not started", "no such command; did you mean npx?")


CRASHED = "the server exited with 1: ConnectionError: no route to postgres://db:5432"


def crash(tmp_path: Path, *last: str) -> str:
    """The recording of a server that wrote a traceback before any message."""
    trace = tmp_path / "crash.jsonl"
    said = ("Traceback (most recent call last):", '  File "/srv/s.py", line 3, in connect', *last)
    JournalFolder(
        trace,
        [START, stderr("\n".join(said).encode()), (journal.EXIT, b'{"ending":"exited","code":1}', 9_000, 0)],
    )
    record(trace)
    return str(trace)


@pytest.mark.parametrize("lines", [["    connect()"], ["x"] * 500], ids=["one line", "many short lines"])
def test_a_traceback_before_any_message_is_the_reason(
    mcpproxy: Mcpproxy, tmp_path: Path, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = crash(tmp_path, *lines, "ConnectionError: no route to postgres://db:5432")
    assert recording(path).is_empty
    assert recording(path).ended == CRASHED
    assert recording(path).reason in mcpproxy("list", str(tmp_path)).out
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    for argv in (
        ("show", path),
        ("stats", path),
        ("show", "--all", str(tmp_path), "--filter", "status:unsuccessful"),
        *(("check", path, "--format", each) for each in ("text", "json", "github", "junit", "sarif")),
    ):
        assert CRASHED in mcpproxy(*argv).out, argv
    assert "0 calls; 0 frames; nothing to judge\n" in mcpproxy("show", path).out


def test_the_search_of_all_recordings_counts_a_server_that_exited_at_once(
    mcpproxy: Mcpproxy, tmp_path: Path
) -> None:
    path = crash(tmp_path, "ConnectionError: no route to postgres://db:5432")
    said = mcpproxy("show", "--all", str(tmp_path), "--filter", "status:unsuccessful").out.splitlines()
    assert said[-1] == "0 rows in 0 of 1 recording, 1 failed before any message: status:unsuccessful"
    assert "crash.jsonl" in said[0], path


def test_a_masked_copy_masks_the_reason(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    path = crash(tmp_path, "ConnectionError: ghp_0123456789abcdefghijABCDEFGHIJ012345 is refused")
    copy = str(tmp_path / "copy.jsonl")
    assert "ghp_0123" in recording(path).ended
    mcpproxy("redact", path, "--preset", "secrets", "-o", copy)
    assert recording(copy).ended.endswith(" is refused")
    assert "ghp_0123" not in Path(copy).read_text()


@pytest.mark.parametrize(
    "argv",
    [
        ("show", "{}"),
        ("show", "{}", "--frames"),
        ("show", "--all", "{folder}", "--filter", "status:error"),
        ("show", "--all", "{folder}"),
        ("stats", "{}"),
        ("check", "{}"),
    ],
    ids=" ".join,
)
def test_every_command_says_why(mcpproxy: Mcpproxy, failed: str, argv: tuple[str, ...]) -> None:
    folder = str(Path(failed).parent)
    assert HOW in mcpproxy(*(word.format(failed, folder=folder) for word in argv)).out


@pytest.mark.parametrize(
    "command", ["diff {good} {}", "diff {} {good}", "replay server {}", "replay client {} -- x"]
)
def test_what_needs_messages_says_why_there_are_none(mcpproxy: Mcpproxy, failed: str, command: str) -> None:
    good = recordings.write(Path(failed).parent / "good.jsonl", recordings.CLEAN)
    said = mcpproxy(*command.format(failed, good=good).split())
    assert (said.code, said.err) == (
        2,
        f"mcpproxy: {failed}: holds no message: {HOW}; name another recording: mcpproxy list\n",
    )


def test_the_list_says_why_in_terminals_of_any_width(
    mcpproxy: Mcpproxy, failed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recordings.write(Path(failed).parent / "good.jsonl", recordings.CLEAN)
    heading, *rows = mcpproxy("list", str(Path(failed).parent)).out.splitlines()
    assert heading.split()[-1] == "WHY"
    assert [row.endswith("no such command; did you mean npx?") for row in rows].count(True) == 1
    (row,) = (row for row in rows if "npxx" in row)
    assert "no findings" not in row
    assert [" at start " in row for row in rows].count(True) == 1
    for width in (len(row) - 5, 100, 80):
        monkeypatch.setenv("COLUMNS", str(width))
        lines = mcpproxy("list", str(Path(failed).parent)).out.splitlines()
        assert all(len(line) <= width for line in lines)
        assert "  no such command; di" in "\n".join(lines), width
    listed = json.loads(mcpproxy("list", "--json", str(Path(failed).parent)).out)["traces"]
    assert {each["reason"] for each in listed} == {None, "no such command; did you mean npx?"}


def test_the_terminal_says_why(failed: str) -> None:
    with open_view(failed) as view:
        lines = overview_lines(SessionItem(recording(failed)), view)
        assert HOW in "".join(span.text for line in lines for span in line)


def test_a_copy_still_has_the_reason(mcpproxy: Mcpproxy, failed: str, tmp_path: Path) -> None:
    copy = str(tmp_path / "copy.jsonl")
    mcpproxy("redact", failed, "--preset", "secrets", "-o", copy)
    assert recording(copy).ended == HOW


def test_an_earlier_release_did_not_record_why(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    path = recordings.write(tmp_path / "t.jsonl", recordings.without_a_message(STARTED_AT))
    assert "\nthe server could not be started\n" in mcpproxy("show", path).out
    assert recording(path).ended == "the server could not be started"
