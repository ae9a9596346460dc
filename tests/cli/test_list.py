"""``mcpproxy list``: what was recorded, from the head and the tail of each file."""

import fcntl
import json
from pathlib import Path

import pytest

from mcpproxy.cli.commands.list import TAIL_BYTES, summarise
from tests.cli import recordings
from tests.cli.conftest import Mcpproxy
from tests.cli.recordings import CLEAN, FAULTY, HANDSHAKE, HEADER, close, frame


def test_lists_the_latest_first(mcpproxy: Mcpproxy, state_dir: Path) -> None:
    state_dir.mkdir(parents=True)
    old = recordings.write(state_dir / "20261121T102030.000Z-weather-1.jsonl", CLEAN)
    cut = recordings.write(state_dir / "20261121T112030.000Z-weather-2.jsonl", HANDSHAKE)
    bad = recordings.write(state_dir / "20261121T122030.000Z-weather-3.jsonl", FAULTY)
    listed = mcpproxy("list")
    assert (listed.code, listed.err) == (0, "")
    assert listed.out.splitlines() == [
        "STARTED (UTC)        LABEL    DURATION  FRAMES  FINDINGS     ENDED   TRACE",
        f"2026-11-21 10:20:30  weather    12.3 s       5  1 error      exit 0  {bad}",
        f"2026-11-21 10:20:30  weather    350 ms       3  -            cut     {cut}",
        f"2026-11-21 10:20:30  weather    12.3 s       5  no findings  exit 0  {old}",
    ]


def test_json_says_null_for_what_it_does_not_know(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    path = recordings.write(tmp_path / "t.jsonl", (HEADER,))
    assert json.loads(mcpproxy("list", "--json", str(tmp_path)).out) == {
        "folder": str(tmp_path),
        "traces": [
            {
                "path": path,
                "transport": "stdio",
                "upstream": None,
                "label": "weather",
                "started_at": "2026-11-21T10:20:30.123456Z",
                "duration_ns": None,
                "frames": None,
                "findings": None,
                "ended": "cut",
            }
        ],
    }


def test_a_held_lock_means_running(tmp_path: Path) -> None:
    path = recordings.write(tmp_path / "t.jsonl", HANDSHAKE)
    (tmp_path / "t.jsonl.journal").mkdir()
    with (tmp_path / "t.jsonl.journal" / "lock").open("w") as lock:
        assert summarise(path).ended == "cut"
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert summarise(path).ended == "running"


def test_a_journal_without_its_trace_is_listed_too(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    (tmp_path / "t.jsonl.journal").mkdir()
    assert mcpproxy("list", str(tmp_path)).out.splitlines()[1].split() == [
        *"-----",
        "cut",
        str(tmp_path / "t.jsonl"),
    ]


def test_the_middle_of_a_file_is_not_read(tmp_path: Path) -> None:
    """Megabytes of damage in between change nothing."""
    path = tmp_path / "t.jsonl"
    junk = "x" * (100 * TAIL_BYTES)
    recordings.write(path, (HEADER, junk, frame(9, "server", recordings.NO_TOOLS), close(4, 5, code=3)))
    recording = summarise(str(path))
    assert (recording.frames, recording.ended, recording.duration_ns) == (9, "exit 3", 12_300_000_000)


def test_files_that_are_no_traces_are_named_as_such(tmp_path: Path) -> None:
    for content in (b"", b"\x00\xff" * 99, b'{"type":"header"\n', b"[]\n"):
        (tmp_path / "t.jsonl").write_bytes(content)
        assert summarise(str(tmp_path / "t.jsonl")).ended == "not a trace"


ENDINGS = {
    '"exited","exit_code":3,"signal":null': "exit 3",
    '"signalled","exit_code":null,"signal":9': "signal 9",
    '"not started","exit_code":127,"signal":null': "not started",
    '"cut","exit_code":null,"signal":null': "cut",
}


@pytest.mark.parametrize(("members", "ended"), ENDINGS.items(), ids=ENDINGS.values())
def test_endings(tmp_path: Path, members: str, ended: str) -> None:
    """An older mcpproxy may have counted nothing."""
    path = recordings.write(tmp_path / "t.jsonl", (HEADER, f'{{"type":"close","t":5,"ending":{members}}}'))
    recording = summarise(path)
    assert (recording.ended, recording.frames) == (ended, 0)


def test_a_proxy_over_http_is_stopped_and_does_not_exit(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    """The server is another process, so its exit code is not known."""
    over_http = HEADER.replace('"transport":"stdio"', '"transport":"http"')
    recordings.write(tmp_path / "t.jsonl", (over_http, close(0, 0)))
    assert mcpproxy("list", str(tmp_path)).out.splitlines()[1].split()[-2] == "stopped"
    recordings.write(tmp_path / "t.jsonl", (over_http, close(0, 0, code=1)))
    assert summarise(str(tmp_path / "t.jsonl")).ended == "exit 1"


def test_paths_in_the_working_directory_are_short(
    mcpproxy: Mcpproxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    recordings.write(tmp_path / "here" / "in.jsonl", CLEAN)
    outside = recordings.write(tmp_path / "out.jsonl", CLEAN)
    listed = {folder: mcpproxy("list", str(tmp_path / folder)).out for folder in ("here", "")}
    assert listed["here"].splitlines()[1].split()[-1] == "in.jsonl"
    assert listed[""].splitlines()[1].split()[-1] == outside
    (trace,) = json.loads(mcpproxy("list", "--json", str(tmp_path / "here")).out)["traces"]
    assert trace["path"] == str(tmp_path / "here" / "in.jsonl")  # programs may be elsewhere


def test_a_file_that_cannot_be_opened_has_its_line(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").mkdir()
    assert summarise(str(tmp_path / "t.jsonl")).ended == "is a directory"


def test_a_limit_says_what_it_leaves_out(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    for number in range(5):
        recordings.write(tmp_path / f"{number}.jsonl", CLEAN)
    listed = mcpproxy("list", str(tmp_path), "--limit", "2")
    assert [line[-7:] for line in listed.out.splitlines()[1:]] == ["4.jsonl", "3.jsonl"]
    assert listed.err == "mcpproxy: 3 older recordings not listed; see --limit\n"


def test_nothing_recorded_yet_is_no_error(mcpproxy: Mcpproxy, state_dir: Path) -> None:
    listed = mcpproxy("list")
    assert (listed.code, listed.out) == (0, "")
    assert listed.err == (
        f"mcpproxy: nothing recorded yet in {state_dir}; "
        "wrap a server with mcpproxy -- SERVER, or try mcpproxy demo\n"
    )
    assert json.loads(mcpproxy("list", "--json").out)["traces"] == []
