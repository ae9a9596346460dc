"""``mcpproxy list``: what was recorded, from the head and the tail of each file."""

import fcntl
import json
import time
from pathlib import Path

import pytest

from mcpproxy.judge.session.outcomes import CallCounts
from mcpproxy.read.view.folder import recording
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
        "    STARTED (UTC)        LABEL    SERVER  CLIENT  DURATION  FRAMES"
        "  FAILED  FINDINGS     ENDED   TRACE",
        "-1  2026-11-21 10:20:30  weather  s 1     c 1       12.3 s       5"
        f"  ?       1 error      exit 0  {bad}",
        "-2  2026-11-21 10:20:30  weather  s 1     c 1       350 ms       3"
        f"  0 of 1  -            cut     {cut}",
        "-3  2026-11-21 10:20:30  weather  s 1     c 1       12.3 s       5"
        f"  ?       no findings  exit 0  {old}",
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
                "model": None,
                "label": "weather",
                "server": None,
                "client": None,
                "started_at": "2026-11-21T10:20:30.123456Z",
                "duration_ns": None,
                "frames": None,
                "calls": 0,
                "failed": 0,
                "refused": 0,
                "unanswered": 0,
                "cancelled": 0,
                "unreadable": 0,
                "findings": None,
                "ended": "cut",
                "reason": None,
            }
        ],
    }


FAILED = {
    (7, 0, 0): ("0 of 7", "0 of 7"),
    (7, 2, 0): ("2 of 7", "2 of 7"),
    (7, 0, 1): ("1 unanswered", "1 unanswered"),
    (1007, 1002, 1): ("1,002 of 1,007, 1 unanswered", "1,002 of 1,007+"),
    (0, 0, 0): ("no calls", "no calls"),
    (3, 0, 0, 0, 1): ("1 refused", "1 refused"),
    (3, 1, 0, 1, 1): ("1 of 3, 1 refused, 1 cancelled", "1 of 3+"),
    (): ("?", "?"),
}


@pytest.mark.parametrize(("calls", "texts"), FAILED.items(), ids=str)
def test_failed_calls_stand_beside_findings(
    tmp_path: Path, calls: tuple[int, ...], texts: tuple[str, str]
) -> None:
    entry = recording(recordings.write(tmp_path / "t.jsonl", (*HANDSHAKE, close(2, 1, calls=calls))))
    assert (entry.failed_text, entry.failed_brief) == texts
    assert entry.has_failed == (sum(calls[1:]) > 0)


def test_failed_recordings_alone_keep_their_handles(mcpproxy: Mcpproxy, state_dir: Path) -> None:
    state_dir.mkdir(parents=True)
    for hour, calls in enumerate(((3, 1, 0), (3, 0, 0), (3, 0, 2), (3, 0, 0))):
        path = state_dir / f"20261121T1{hour}0000.000Z-weather-1.jsonl"
        recordings.write(path, (*HANDSHAKE, close(2, 1, calls=calls)))
    listed = mcpproxy("list", "--failed").out.splitlines()[1:]
    assert [line.split()[0] for line in listed] == ["-2", "-4"]
    assert "  2 unanswered  no findings  " in listed[0]
    assert "  1 of 3        no findings  " in listed[1]
    latest = mcpproxy("list", "--failed", "--limit", "1")
    assert latest.out.splitlines()[1].startswith("-2 ")
    assert latest.err == "mcpproxy: 2 older recordings not listed; see --limit\n"
    traces = json.loads(mcpproxy("list", "--failed", "--json").out)["traces"]
    assert [(one["calls"], one["failed"], one["unanswered"]) for one in traces] == [(3, 0, 2), (3, 1, 0)]


def test_a_server_that_failed_before_any_message_is_among_the_failed(
    mcpproxy: Mcpproxy, state_dir: Path
) -> None:
    state_dir.mkdir(parents=True)
    for hour, members in enumerate(
        ('exited","exit_code":0', 'exited","exit_code":1', 'not started","exit_code":127')
    ):
        ended = close(0, 0).replace('exited","exit_code":0', members)
        recordings.write(state_dir / f"20261121T1{hour}0000.000Z-weather-1.jsonl", (HEADER, ended))
    listed = mcpproxy("list", "--failed").out.splitlines()[1:]
    assert [line.split()[0] for line in listed] == ["-1", "-2"]
    assert ["not started" in listed[0], "exit 1" in listed[1]] == [True, True]


def test_recordings_with_findings_stand_beside_those_with_failed_calls(
    mcpproxy: Mcpproxy, state_dir: Path
) -> None:
    state_dir.mkdir(parents=True)
    for hour, (calls, errors) in enumerate((((3, 1, 0), 0), ((3, 0, 0), 1), ((3, 0, 0), 0))):
        path = state_dir / f"20261121T1{hour}0000.000Z-weather-1.jsonl"
        recordings.write(path, (*HANDSHAKE, close(2, 1, calls=calls, errors=errors)))

    def handles(*options: str) -> list[str]:
        return [line.split()[0] for line in mcpproxy("list", *options).out.splitlines()[1:]]

    assert handles("--failed") == ["-3"]
    assert handles("--findings") == ["-2"]
    assert handles("--failed", "--findings") == ["-2", "-3"]


def test_the_help_explains_every_word_for_calls_that_were_not_successful(mcpproxy: Mcpproxy) -> None:
    told = mcpproxy("list", "--help").out
    counts = CallCounts(1, 0, unanswered=1, cancelled=1, refused=1, declined=1)
    for number, word in counts.unsuccessful(running=False):
        assert f"{number} {word}" in told


def test_where_no_call_failed_the_list_says_so(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    recordings.write(tmp_path / "t.jsonl", CLEAN)  # of a release that did not count calls
    listed = mcpproxy("list", "--failed", str(tmp_path))
    assert (listed.code, listed.out) == (0, "")
    assert listed.err == (
        f"mcpproxy: no recording in {tmp_path} is known to have a call that was not successful\n"
        "mcpproxy: the calls of 1 recording were not counted when it was made;"
        " mcpproxy show --all --filter status:unsuccessful reads them\n"
    )


def test_a_call_of_a_running_session_waits(tmp_path: Path) -> None:
    asked = frame(4, "client", recordings.LIST_TOOLS, ms=360)
    path = recordings.write(tmp_path / "t.jsonl", (*HANDSHAKE, asked))
    assert recording(path).failed_text == "1 unanswered"  # it was cut
    (tmp_path / "t.jsonl.journal").mkdir()
    with (tmp_path / "t.jsonl.journal" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        entry = recording(path)
        assert entry.failed_text.startswith("1 waiting ")
        assert 0 < (entry.waiting_ns or 0) < time.monotonic_ns()
        recordings.write(tmp_path / "t.jsonl", (*HANDSHAKE, asked, frame(5, "server", recordings.NO_TOOLS)))
        assert recording(path).failed_text == "0 of 2"


def test_a_long_recording_without_an_end_is_not_read(tmp_path: Path) -> None:
    many = [frame(seq, "client", recordings.LIST_TOOLS) for seq in range(4, 14_000)]
    entry = recording(recordings.write(tmp_path / "t.jsonl", (*HANDSHAKE, *many)))
    assert (entry.frames, entry.failed_text) == (13_999, "?")


def test_a_held_lock_means_running(tmp_path: Path) -> None:
    path = recordings.write(tmp_path / "t.jsonl", HANDSHAKE)
    (tmp_path / "t.jsonl.journal").mkdir()
    with (tmp_path / "t.jsonl.journal" / "lock").open("w") as lock:
        assert recording(path).ending == "cut"
        fcntl.flock(lock, fcntl.LOCK_EX)
        before_ns = time.monotonic_ns()
        entry = recording(path)
        assert entry.ending == "running"
        assert (entry.duration_ns or 0) >= before_ns - 5  # until now, although the last frame was long ago


def test_a_journal_without_its_trace_is_listed_too(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    (tmp_path / "t.jsonl.journal").mkdir()
    assert mcpproxy("list", str(tmp_path)).out.splitlines()[1].split() == [
        *"------?-",
        "cut",
        str(tmp_path / "t.jsonl"),
    ]


def test_the_middle_of_a_file_is_not_read(tmp_path: Path) -> None:
    """Megabytes of damage in between change nothing."""
    path = tmp_path / "t.jsonl"
    junk = "x" * (100 * (16 << 10))
    recordings.write(path, (HEADER, junk, frame(9, "server", recordings.NO_TOOLS), close(4, 5, code=3)))
    entry = recording(str(path))
    assert (entry.frames, entry.ending, entry.duration_ns) == (9, "exit 3", 12_300_000_000)


def test_files_that_are_no_traces_are_named_as_such(tmp_path: Path) -> None:
    for content in (b"", b"\x00\xff" * 99, b'{"type":"header"\n', b"[]\n"):
        (tmp_path / "t.jsonl").write_bytes(content)
        assert recording(str(tmp_path / "t.jsonl")).ending == "not a trace"


ENDINGS = {
    '"exited","exit_code":3,"signal":null': "exit 3",
    '"signalled","exit_code":null,"signal":9': "signal 9",
    '"not started","exit_code":127,"signal":null': "not started",
    '"cut","exit_code":null,"signal":null': "cut",
}


@pytest.mark.parametrize(("members", "ended"), ENDINGS.items(), ids=ENDINGS.values())
def test_endings(tmp_path: Path, members: str, ended: str) -> None:
    ended_so = close(0, 0).replace('"exited","exit_code":0,"signal":null', members)
    path = recordings.write(tmp_path / "t.jsonl", (HEADER, ended_so))
    entry = recording(path)
    assert (entry.ending, entry.frames) == (ended, 0)


def test_a_proxy_over_http_is_stopped_and_does_not_exit(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    """The server is another process, so its exit code is not known."""
    over_http = HEADER.replace('"transport":"stdio"', '"transport":"http"')
    recordings.write(tmp_path / "t.jsonl", (over_http, close(0, 0)))
    assert mcpproxy("list", str(tmp_path)).out.splitlines()[1].split()[-2] == "stopped"
    recordings.write(tmp_path / "t.jsonl", (over_http, close(0, 0, code=1)))
    assert recording(str(tmp_path / "t.jsonl")).ending == "exit 1"


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
    assert recording(str(tmp_path / "t.jsonl")).ending == "is a directory"


def test_a_folder_without_recordings_names_those_below(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    recordings.write(tmp_path / "run" / "s.jsonl", CLEAN)
    told = mcpproxy("list", str(tmp_path))
    below = tmp_path / "run"
    assert told.code == 2
    assert f"{below}: 1 recording in this folder left out; mcpproxy list {below}\n" in told.err


def test_a_limit_says_what_it_leaves_out(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    for number in range(5):
        recordings.write(tmp_path / f"{number}.jsonl", CLEAN)
    listed = mcpproxy("list", str(tmp_path), "--limit", "2")
    assert [line[-7:] for line in listed.out.splitlines()[1:]] == ["4.jsonl", "3.jsonl"]
    assert listed.err == "mcpproxy: 3 older recordings not listed; see --limit, --failed, --findings\n"


def test_nothing_recorded_yet_is_no_error(mcpproxy: Mcpproxy, state_dir: Path) -> None:
    listed = mcpproxy("list")
    assert (listed.code, listed.out) == (0, "")
    assert listed.err == (
        f"mcpproxy: nothing recorded yet in {state_dir}; "
        "wrap a server with mcpproxy -- SERVER, or try mcpproxy demo\n"
    )
    assert json.loads(mcpproxy("list", "--json").out)["traces"] == []


def test_at_80_columns_a_handle_names_the_recording(
    mcpproxy: Mcpproxy, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    state_dir.mkdir(parents=True)
    recordings.write(state_dir / "20261121T102030.000Z-weather-1.jsonl", CLEAN)
    recordings.write(state_dir / "20261121T122030.000Z-weather-3.jsonl", FAULTY)
    assert mcpproxy("list").out.splitlines() == [
        "    START (UTC)  LABEL    SERVER  CLIENT  DURATION  FAILED  FINDINGS  ENDED",
        "-1  11-21 10:20  weather  s       c         12.3 s  ?       1 error   exit 0",
        "-2  11-21 10:20  weather  s       c         12.3 s  ?       none      exit 0",
    ]


@pytest.mark.parametrize(("columns", "is_cut"), [("60", True), ("200", False)])
def test_where_names_are_cut_the_list_says_who_has_them_whole(
    columns: str, is_cut: bool, mcpproxy: Mcpproxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    name = "20261121T102030.000Z-the.weather.of.the.city-8874.jsonl"
    recordings.write(tmp_path / name, CLEAN)
    listed = mcpproxy("list", str(tmp_path))
    assert (name in listed.out) == (not is_cut)
    assert ("names are cut to the width of the terminal; --json has them whole" in listed.err) == is_cut
    assert name in mcpproxy("list", str(tmp_path), "--json").out


def test_at_80_columns_two_wraps_of_one_server_have_their_labels(
    mcpproxy: Mcpproxy, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    state_dir.mkdir(parents=True)
    labels = ["claude-code.filesystem-of-mine", "cursor.filesystem-of-mine"]
    for number, label in enumerate(labels):
        name = f"20261121T1{number}2030.000Z-{label}-{number}.jsonl"
        recordings.write(state_dir / name, (CLEAN[0].replace('"weather"', f'"{label}"'), *CLEAN[1:]))
    head, *lines = mcpproxy("list").out.splitlines()
    assert head.split() == ["START", "(UTC)", "LABEL", "FAILED", "FINDINGS", "ENDED"]
    assert sorted(line.split()[3] for line in lines) == labels
    assert all(len(line) <= 80 for line in (head, *lines))


def test_at_80_columns_the_lengths_of_sessions_give_way_to_labels_and_names(
    mcpproxy: Mcpproxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    labels = ["cursor.filesystem", "vscode.filesystem"]
    for number, label in enumerate(labels):
        name = f"20261121T1{number}2030.000Z-{label}-{number}.jsonl"
        recordings.write(tmp_path / name, (CLEAN[0].replace('"weather"', f'"{label}"'), *CLEAN[1:]))
    head, *lines = mcpproxy("list", str(tmp_path)).out.splitlines()
    assert head.split() == ["START", "(UTC)", "LABEL", "FAILED", "FINDINGS", "ENDED", "TRACE"]
    assert sorted(line.split()[2] for line in lines) == labels
    assert all(line.endswith(f".filesystem-{place}.jsonl") for place, line in zip((1, 0), lines, strict=True))
    assert all(len(line) <= 80 for line in (head, *lines))


def test_at_80_columns_a_label_that_any_script_has_goes_with_the_name_of_the_server(
    mcpproxy: Mcpproxy, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    state_dir.mkdir(parents=True)
    head, *rest = (record.replace('"weather"', '"server"') for record in CLEAN)
    recordings.write(state_dir / "20261121T102030.000Z-server-1.jsonl", (head, *rest))
    assert "  server (s)  " in mcpproxy("list").out


@pytest.mark.parametrize(
    ("width", "head", "failed"),
    [
        (
            100,
            "START (UTC) LABEL SERVER CLIENT DURATION FRAMES FAILED FINDINGS ENDED",
            "1 of 6, 1 unanswered",
        ),
        (80, "START (UTC) LABEL DURATION FAILED FINDINGS ENDED", "1 of 6, 1 unanswered"),
        (52, "START (UTC) LABEL FAILED FINDINGS ENDED", "1 of 6+"),
    ],
)
def test_failed_and_unanswered_calls_are_both_said_before_other_columns(
    mcpproxy: Mcpproxy, state_dir: Path, monkeypatch: pytest.MonkeyPatch, width: int, head: str, failed: str
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    state_dir.mkdir(parents=True)
    records = (*HANDSHAKE, close(2, 1, calls=(6, 1, 1)))
    recordings.write(state_dir / "20261121T102030.000Z-weather-1.jsonl", records)
    heading, line = mcpproxy("list").out.splitlines()
    assert heading.split() == head.split()
    assert f"  {failed}  " in line
    assert len(line) <= width


def test_a_terminal_of_60_columns_gets_fewer_columns(
    mcpproxy: Mcpproxy, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    state_dir.mkdir(parents=True)
    recordings.write(state_dir / "20261121T102030.000Z-weather-1.jsonl", CLEAN)
    recordings.write(state_dir / "20261121T122030.000Z-weather-3.jsonl", FAULTY)
    assert mcpproxy("list").out.splitlines() == [
        "    START (UTC)  LABEL    DURATION  FAILED  FINDINGS  ENDED",
        "-1  11-21 10:20  weather    12.3 s  ?       1 error   exit 0",
        "-2  11-21 10:20  weather    12.3 s  ?       none      exit 0",
    ]


def test_sorted_by_start_whatever_the_name(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    for name, year in (("b", 2024), ("z", 2023), ("a", 2025)):
        header = HEADER.replace("2026-11-21T10", f"{year}-11-21T10")
        recordings.write(tmp_path / f"{name}.jsonl", (header, close(0, 0)))
    listed = json.loads(mcpproxy("list", "--json", str(tmp_path)).out)["traces"]
    assert [Path(entry["path"]).stem for entry in listed] == ["a", "b", "z"]


def test_a_rotated_recording_is_one_line(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    goes_on = (
        '{"type":"continued","t":5,"in":"t.2.jsonl","frames":{"client":1,"server":1},'
        '"findings":{"error":0,"warning":0,"info":0},"judge_error":null}'
    )
    recordings.write(tmp_path / "t.jsonl", (HEADER, goes_on))
    second = HEADER.replace('"redaction"', '"continues":"t.jsonl","redaction"')
    recordings.write(tmp_path / "t.2.jsonl", (second, close(3, 2)))
    (entry,) = json.loads(mcpproxy("list", "--json", str(tmp_path)).out)["traces"]
    assert (entry["frames"], entry["ended"], entry["failed"]) == (5, "exit 0", None)
    recordings.write(tmp_path / "t.2.jsonl", (second, close(3, 2, calls=(2, 1, 0))))
    assert recording(str(tmp_path / "t.jsonl")).failed_text == "1 of 2"
    recordings.write(tmp_path / "t.2.jsonl", (second, frame(9, "client", recordings.LIST_TOOLS)))
    assert recording(str(tmp_path / "t.jsonl")).failed_text == "?"  # those of the first file are not at hand
