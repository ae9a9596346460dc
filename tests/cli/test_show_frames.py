"""``mcpproxy show --frames`` and ``--json``: each message on its own, for people and for machines."""

import json
import threading
from pathlib import Path

import pytest

from tests.cli import recordings
from tests.cli.conftest import Mcpproxy
from tests.cli.recordings import CLEAN, FAULTY, HANDSHAKE, close, finding, frame

STRAY = '"text":"loading ..."'


def test_reads_as_the_conversation(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    path = recordings.write(tmp_path / "t.jsonl", FAULTY)
    shown = mcpproxy("show", "--frames", path)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.splitlines() == [
        path,
        "weather, 2026-11-21 10:20:30 UTC: python weather.py",
        "",
        "frame   seconds     took     size",
        "    1     0.010             146 B → initialize id 1  "
        '{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}',
        "    2     0.348   338 ms    134 B ← answer to initialize id 1  "
        '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}',
        "    3     0.350              54 B → notifications/initialized",
        "    4     0.360              46 B → tools/list id 7",
        '    5     0.372              48 B ← answer to an unknown request id "7"  {"tools":[]}',
        '                                  └ error PROTO-007 server: answered with string "7", '
        "the request used number 7",
        "         12.300                   close the server exited with 0",
        "                                  5 frames (3 from the client, 2 from the server), 1 error",
    ]


def test_shows_what_is_no_frame(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    path = recordings.write(
        tmp_path / "t.jsonl",
        (
            *HANDSHAKE,
            '{"type":"stderr","t":360000000,"text":"\\u001b[2Jwarming up"}',
            '{"type":"signal","t":361000000,"signal":"SIGTERM"}',
            '{"type":"gap","t":362000000,"reason":"the disk was full","client":0,"server":2500,"stderr":7}',
            '{"type":"eof","t":363000000,"from":"server"}',
            '{"type":"close","t":364000000,"ending":"signalled","exit_code":null,"signal":15,'
            '"frames":{"client":2,"server":1},"findings":{"error":0,"warning":0,"info":0},"judge_error":"KeyError"}',
        ),
    )
    out = mcpproxy("show", "--frames", path).out
    assert "0.360                   stderr \\u001b[2Jwarming up\n" in out
    assert "0.361                   signal SIGTERM\n" in out
    lost = "2.50 kB from the server, 7 B of stderr; the disk was full"
    assert f"0.362                   gap not recorded: {lost}\n" in out
    assert "0.363                   eof the server closed its side\n" in out
    assert "0.364                   close signal 15 ended the server\n" in out
    assert "incomplete: 2507 bytes are missing: the disk was full\n" in out
    assert "not everything was judged while recording: KeyError; mcpproxy check judges it again\n" in out


def test_a_finding_recorded_late_stands_under_its_frame(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    late = finding("STDIO-002", 4, "wrote a line that is no message")
    whole = finding("SEQ-001", 0, "about the session")
    path = recordings.write(
        tmp_path / "t.jsonl",
        (
            *HANDSHAKE,
            f'{{"type":"frame","seq":4,"t":351000000,"from":"server",{STRAY}}}',
            frame(5, "client", recordings.LIST_TOOLS, ms=360),
            late,
            whole,
            close(3, 2, errors=2),
        ),
    )
    lines = [line.strip() for line in mcpproxy("show", "--frames", path).out.splitlines()[7:]]
    assert lines[0].endswith("← the frame is not JSON  loading ...")
    assert lines[1] == "└ error STDIO-002 server: wrote a line that is no message"
    assert lines[2].endswith("→ tools/list id 7")
    assert lines[3] == "└ error SEQ-001 server: about the session"
    followed = [line.strip() for line in mcpproxy("show", "--frames", path, "--follow").out.splitlines()[7:]]
    assert followed[2] == "└ error STDIO-002 server: wrote a line that is no message (frame 4)"


def test_a_finding_about_a_frame_that_is_not_in_the_recording_is_shown(
    mcpproxy: Mcpproxy, tmp_path: Path
) -> None:
    records = (*HANDSHAKE, finding("STDIO-002", 9, "wrote a line that is no message"), close(2, 1, errors=1))
    path = recordings.write(tmp_path / "t.jsonl", records)
    out = mcpproxy("show", "--frames", path).out
    assert "└ error STDIO-002 server: wrote a line that is no message (frame 9)\n" in out
    *_, found, _ = map(json.loads, mcpproxy("show", "--json", path).out.splitlines())
    assert (found["kind"], found["rule"], found["frame"]) == ("finding", "STDIO-002", 9)


def test_json_has_one_object_per_line(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    path = recordings.write(tmp_path / "t.jsonl", FAULTY)
    objects = [json.loads(line) for line in mcpproxy("show", "--json", path).out.splitlines()]
    header, first, second, *_, last, ending = objects
    assert [o["kind"] for o in objects] == [
        "header",
        "request",
        "response",
        "notification",
        "request",
        "response",
        "close",
    ]
    assert header["path"] == path
    assert header["command"] == ["python", "weather.py"]
    assert (first["seq"], first["t"], first["from"], first["id"]) == (1, 10_000_000, "client", 1)
    assert (second["method"], second["answers"], second["latency_ns"]) == ("initialize", 1, 338_000_000)
    assert (second["bytes"], second["findings"]) == (len(recordings.INITIALIZED), [])
    assert (last["id"], last["answers"], last["method"]) == ("7", None, None)
    assert [f["rule"] for f in last["findings"]] == ["PROTO-007"]
    assert (ending["ending"], ending["exit_code"]) == ("exited", 0)
    assert first["message"] == json.loads(recordings.INITIALIZE)
    assert last["message"] == json.loads(recordings.NO_TOOLS_FOR_A_STRING)


def test_json_while_following_holds_nothing_back(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    path = recordings.write(tmp_path / "t.jsonl", FAULTY)
    objects = [json.loads(line) for line in mcpproxy("show", "--json", "--follow", path).out.splitlines()]
    assert [o["kind"] for o in objects[-3:]] == ["response", "finding", "close"]
    assert objects[-3]["findings"] == []


SPANS = {
    "3-4": [3, 4],
    "4": [4],
    "4-": [4, 5],
    "-2": [1, 2],
}


@pytest.mark.parametrize(("span", "expected"), SPANS.items(), ids=SPANS)
def test_frames_picks_a_range(mcpproxy: Mcpproxy, tmp_path: Path, span: str, expected: list[int]) -> None:
    path = recordings.write(tmp_path / "t.jsonl", FAULTY)
    objects = [
        json.loads(line) for line in mcpproxy("show", "--json", f"--frames={span}", path).out.splitlines()
    ]
    assert [o["seq"] for o in objects if "seq" in o] == expected
    text = mcpproxy("show", f"--frames={span}", path).out
    assert [int(line[:5]) for line in text.splitlines()[4:] if line[:5].strip()] == expected
    assert ("PROTO-007" in text) == (5 in expected)


def test_an_answer_keeps_its_question_when_that_is_out_of_sight(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    path = recordings.write(tmp_path / "t.jsonl", CLEAN)
    assert "answer to tools/list id 7" in mcpproxy("show", "--frames=5", path).out


def test_long_payloads_are_shortened_unless_full(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    long = '{"jsonrpc":"2.0","method":"x","params":{"text":"' + "word " * 2000 + '"}}'
    path = recordings.write(tmp_path / "t.jsonl", (*HANDSHAKE, frame(4, "client", long), close(3, 1)))
    short, full = mcpproxy("show", "--frames", path).out, mcpproxy("show", "--frames", "--full", path).out
    assert max(map(len, short.splitlines())) < 220
    assert "…" in short
    assert long in full


def test_follow_waits_for_what_is_added(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    """The recording grows while it is shown; the lock of a living recorder stands beside it."""
    import fcntl

    path = tmp_path / "t.jsonl"
    recordings.write(path, HANDSHAKE)
    journal = tmp_path / "t.jsonl.journal"
    journal.mkdir()
    with (journal / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        def add_the_rest() -> None:
            with path.open("a", encoding="utf-8") as file:
                file.writelines(record + "\n" for record in CLEAN[len(HANDSHAKE) :])

        adding = threading.Timer(0.2, add_the_rest)
        adding.start()
        shown = mcpproxy("show", "--frames", "--follow", str(path))
        adding.join()
    assert "close the server exited with 0" in shown.out
