"""The recordings of a folder, and the runs that they belong to."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mcpproxy.cli.main import main
from mcpproxy.cli.new_recording import start_payload
from mcpproxy.read.view.folder import recordings
from mcpproxy.read.view.recording_entry import RecordingEntry
from mcpproxy.read.view.runs import Certainty, link_between, runs
from mcpproxy.record.recorder.lock import Lock
from mcpproxy.record.relay import journal
from tests.benchmarks.sessions import CLOSE, wait_until_recorded
from tests.view.situations import SITUATIONS, Conversation, begun, finding, write

MS = 1_000_000
SECOND = 1_000_000_000


def test_a_recording_of_a_later_format_says_so_and_nothing_else(tmp_path: Path) -> None:
    header = {"type": "header", "format": 7, "label": ["what", "that", "format", "has"]}
    write(tmp_path / "a.jsonl", (json.dumps(header), *SITUATIONS["slow call"][1:]))
    [entry] = recordings(str(tmp_path))
    fact = "written by format 7, this mcpproxy reads up to 1; please update"
    assert (entry.state, entry.ended, entry.ending) == ("unreadable", fact, "later format")


def test_a_recording_is_found_by_the_words_that_say_what_went_wrong(tmp_path: Path) -> None:
    cut = begun()
    cut.asks(2, "ping", ms=100)
    unanswered = cut.closes(ms=200)[:-1]
    counted = '"calls":{"total":3,"failed":0,"unanswered":1,"cancelled":0},"judge_error"'
    ended = cut.closes(ms=200)[-1].replace('"judge_error"', counted)
    write(tmp_path / "unanswered.jsonl", (*unanswered, ended))
    write(tmp_path / "exited.jsonl", begun().closes(ms=9, code=1))
    write(tmp_path / "well.jsonl", begun().closes(ms=9))
    found = {os.path.basename(entry.path): entry.searched for entry in recordings(str(tmp_path))}

    def having(word: str) -> list[str]:
        return sorted(name for name, text in found.items() if word in text)

    assert having("failed") == having("unanswered") == ["unanswered.jsonl"]
    assert having("exited with 1") == ["exited.jsonl"]


def test_a_folder_is_listed_by_the_time_of_the_start(tmp_path: Path) -> None:
    later = [SITUATIONS["slow call"][0].replace("10:20:30", "10:20:31"), *SITUATIONS["slow call"][1:]]
    write(tmp_path / "a.jsonl", tuple(later))
    write(tmp_path / "b.jsonl", finding())
    write(tmp_path / "c.jsonl", ("hello",))
    write(tmp_path / "notes.txt", ("hello",))
    odd, first, second = recordings(str(tmp_path))
    assert [os.path.basename(entry.path) for entry in (odd, first, second)] == [
        "c.jsonl",
        "b.jsonl",
        "a.jsonl",
    ]
    assert (odd.state, odd.ended) == ("unreadable", "c.jsonl is not a trace")
    assert (first.state, first.ended) == ("ended", "the server exited with 0")
    assert (first.client, first.client_version, first.server, first.revision) == (
        "desk", "2.1", "weather", "2025-11-25",
    )  # fmt: skip
    assert first.findings == {"error": 1, "warning": 1, "info": 0}
    assert (first.frames, first.duration_ns) == (8, 200 * MS)
    assert second.started_ns - first.started_ns == SECOND
    assert second.active_ns - second.started_ns == MS


def test_the_peers_are_found_behind_what_a_server_says_before_its_answer(tmp_path: Path) -> None:
    header, initialize, *others = finding()
    log = json.dumps({"type": "stderr", "t": 2 * MS, "text": "loading"}, separators=(",", ":"))
    write(tmp_path / "a.jsonl", (header, initialize, *[log] * 200, *others))
    (entry,) = recordings(str(tmp_path))
    assert (entry.server, entry.server_version, entry.revision) == ("weather", "1.4", "2025-11-25")


def test_a_cut_and_a_running_recording(tmp_path: Path) -> None:
    for name in ("cut", "running"):
        path = write(tmp_path / f"{name}.jsonl", tuple(begun().records))
        Path(journal.folder(path)).mkdir(mode=0o700)
    lock = Lock.take(journal.folder(str(tmp_path / "running.jsonl")))
    assert lock is not None
    Path(journal.folder(str(tmp_path / "began.jsonl"))).mkdir(mode=0o700)
    try:
        found = {os.path.basename(entry.path): entry for entry in recordings(str(tmp_path))}
    finally:
        lock.release()
    states = {name: (entry.state, entry.frames, entry.running) for name, entry in found.items()}
    assert states == {
        "began.jsonl": ("cut", None, False),
        "cut.jsonl": ("cut", 5, False),
        "running.jsonl": ("running", 5, True),
    }


def test_a_recording_whose_recorder_has_not_begun_is_starting(tmp_path: Path) -> None:
    path = str(tmp_path / "s.jsonl")
    members = {"transport": '"stdio"', "command": '["python","weather.py"]'}
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as relay:
        now_ns = time.monotonic_ns()  # a relay is older than its recording
        start = json.loads(start_payload("weather", now_ns, members)) | {"pid": relay.pid}
        made = journal.Journal(path, json.dumps(start).encode(), now_ns)
        (entry,) = recordings(str(tmp_path))
        assert (entry.state, entry.running, entry.label) == ("starting", True, "weather")
        assert entry.ppid == os.getppid()
        for header in ("", '{"type":"hea'):  # the recorder was killed when it had begun the file
            Path(path).write_text(header)
            (entry,) = recordings(str(tmp_path))
            assert (entry.state, entry.running, entry.label) == ("starting", True, "weather")
        relay.kill()
    (entry,) = recordings(str(tmp_path))
    assert (entry.state, entry.running) == ("cut", False)
    made.discard()


def test_a_recording_says_which_process_started_it(tmp_path: Path) -> None:
    trace = str(tmp_path / "s.jsonl")
    command = [sys.executable, "-m", "mcpproxy", "--trace", trace, "--", sys.executable, "-c", ""]
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    wait_until_recorded(Path(trace), CLOSE)  # on a busy machine the recorder may end after the server
    (entry,) = recordings(str(tmp_path))
    assert (entry.ppid, entry.state) == (os.getpid(), "ended")
    copied = tmp_path / "copy" / "s.jsonl"
    copied.parent.mkdir()
    assert main(["redact", entry.path, "--preset", "secrets", "-o", str(copied)]) == 0
    (entry,) = recordings(str(copied.parent))
    assert (entry.ppid, entry.boot) == (0, "")


def test_a_rotated_recording_is_one_entry(tmp_path: Path) -> None:
    tally = {"frames": {"client": 3, "server": 2}, "findings": {}, "judge_error": None}
    continued = {"type": "continued", "t": 60 * MS, "in": "s.2.jsonl", **tally}
    session = begun()
    header = json.loads(session.records[0]) | {"continues": "s.jsonl"}
    write(tmp_path / "s.jsonl", (*session.records, json.dumps(continued, separators=(",", ":"))))
    write(tmp_path / "s.2.jsonl", (json.dumps(header, separators=(",", ":")),))
    (entry,) = recordings(str(tmp_path))
    assert (entry.files, entry.frames) == (2, 5)  # the second file has no frame yet
    last = session.closes(ms=90)[-1]
    write(tmp_path / "s.2.jsonl", (json.dumps(header, separators=(",", ":")), last))
    (entry,) = recordings(str(tmp_path))
    assert (os.path.basename(entry.path), entry.files, entry.state) == ("s.jsonl", 2, "ended")
    assert entry.duration_ns == 90 * MS


def test_nothing_is_opened_that_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    states = {os.path.basename(entry.path): entry.state for entry in recordings(str(tmp_path))}
    assert states == {"pipe.jsonl": "unreadable", "gone.jsonl": "unreadable"}


def test_texts_of_a_header_are_safe_to_show(tmp_path: Path) -> None:
    session = Conversation(label="we\x1b[2Jather", cwd="/s\u202erv")
    write(tmp_path / "s.jsonl", session.closes(ms=1))
    (entry,) = recordings(str(tmp_path))
    assert (entry.label, entry.cwd) == ("we\\u001b[2Jather", "/s\\u202erv")


def entry(name: str, start_s: float, end_s: float | None, **members: Any) -> RecordingEntry:
    """A recording on stdio from ``start_s`` to ``end_s``, or running."""
    start_ns = int((1000 + start_s) * SECOND)
    usual: dict[str, Any] = {"transport": "stdio", "client": "desk", "client_version": "1", "boot": "b1"}
    return RecordingEntry(
        path=name,
        state="running" if end_s is None else "ended",
        started_ns=start_ns,
        active_ns=start_ns,
        duration_ns=None if end_s is None else int((end_s - start_s) * SECOND),
        **(usual | members),
    )


LINKS: dict[str, tuple[RecordingEntry, RecordingEntry, Certainty | None]] = {
    "one process, at the same time": (
        entry("a", 0, 100, ppid=50), entry("b", 60, None, ppid=50), Certainty.CERTAIN,
    ),
    "one process, one after the other": (
        entry("a", 0, 100, ppid=50), entry("b", 160, None, ppid=50), Certainty.LIKELY,
    ),
    "a number that was used again days later": (
        entry("a", 0, 100, ppid=50), entry("b", 200_000, None, ppid=50), None,
    ),
    "a number of another boot": (
        entry("a", 0, 100, ppid=50), entry("b", 50, 60, ppid=50, boot="b2"), None,
    ),
    "one process, but two clients": (
        entry("a", 0, 100, ppid=50), entry("b", 50, 60, ppid=50, client="phone"), None,
    ),
    "shells between, begun together": (
        entry("a", 0, 100, ppid=50), entry("b", 2, 60, ppid=51), Certainty.GUESS,
    ),
    "no numbers, begun together": (entry("a", 0, 100), entry("b", 2, 60), Certainty.GUESS),
    "no numbers, begun apart": (entry("a", 0, 100), entry("b", 30, 60), None),
    "another version of the client": (
        entry("a", 0, 100), entry("b", 2, 60, client_version="2"), None,
    ),
    "the init process": (entry("a", 0, 100, ppid=1), entry("b", 60, 90, ppid=1), None),
}  # fmt: skip


@pytest.mark.parametrize(("one", "other", "sure"), LINKS.values(), ids=LINKS)
def test_two_recordings_of_one_run(
    one: RecordingEntry, other: RecordingEntry, sure: Certainty | None
) -> None:
    assert link_between(one, other) == link_between(other, one) == sure


def test_recordings_are_grouped_into_runs() -> None:
    found = runs(
        [
            entry("late", 500, None, ppid=60),
            entry("files", 0, 100, ppid=50),
            entry("weather", 1, 100, ppid=50),
            entry("phone", 1, 100, client="phone"),
            entry("search", 120, 130, ppid=50),
        ]
    )
    assert [([member.path for member in run.entries], run.certainty, run.client) for run in found] == [
        (["files", "weather", "search"], Certainty.LIKELY, "desk"),
        (["phone"], Certainty.CERTAIN, "phone"),
        (["late"], Certainty.CERTAIN, "desk"),
    ]
    assert found[0].why == "a process of the same number started them, one after the other"
    assert [run.running for run in found] == [False, False, True]


def test_a_file_that_was_made_a_moment_ago_is_no_recording(tmp_path: Path) -> None:
    """The recorder has made it, and writes its header next."""
    counts = {"frames": {"client": 2, "server": 1}, "findings": {"error": 0, "warning": 0, "info": 0}}
    continued = {"type": "continued", "t": 5, "in": "t.2.jsonl", **counts, "judge_error": None}
    records = SITUATIONS["slow call"][:-1]
    write(tmp_path / "t.jsonl", (*records, json.dumps(continued, separators=(",", ":"))))
    (tmp_path / "t.2.jsonl").touch()
    (entry,) = recordings(str(tmp_path))
    assert (entry.path, entry.files) == (str(tmp_path / "t.jsonl"), 1)
