"""The recorder as a process: it is woken, naps, may lose its relay, and never disturbs the session."""

import json
import mmap
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from mcpproxy.base.ready import is_readable
from mcpproxy.judge.session.frame import Close, Event, Finding, Frame
from mcpproxy.read.opening import follow, open_trace
from mcpproxy.read.view.folder import recording
from mcpproxy.read.view.view import open_view
from mcpproxy.record.recorder import process
from mcpproxy.record.recorder.pipeline import RecordingPipeline
from mcpproxy.record.recorder.stderr_notes import Mode
from mcpproxy.record.recorder.wakeup import Wakeup
from mcpproxy.record.relay import journal
from tests.recorder.journals import (
    EXIT,
    START,
    Accuser,
    Entry,
    JournalFolder,
    client,
    mark,
    packed,
    server,
    start,
    stderr,
)
from tests.recorder.limits import file_size_limit

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
TRACEBACK = b"Traceback (most recent call last):\nConnectionError: no route to db:5432\n"
DEADLINE_S = 60


class Forked:
    """A recorder as the relay forks it: a wake pipe, a shared byte, notes that come back through a pipe."""

    def __init__(
        self, trace: Path, live: Mode = "text", quiet: bool = False, room: int | None = None
    ) -> None:
        self.asleep = mmap.mmap(-1, 1)
        wake_fd, self.wake_fd = os.pipe()
        self.notes_fd, notes = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.dup2(notes, 2)
            for fd in (notes, self.notes_fd, self.wake_fd):
                os.close(fd)
            os.set_blocking(2, False)
            if room is None:
                process.run(str(trace), wake_fd, self.asleep, live, quiet)
            else:
                with file_size_limit(room):
                    process.run(str(trace), wake_fd, self.asleep, live, quiet)
            os._exit(0)
        os.close(wake_fd)
        os.close(notes)

    def wake(self) -> None:
        """As the relay does after each record."""
        if self.asleep[0]:
            self.asleep[0] = 0
            os.write(self.wake_fd, b"\0")

    def leave(self) -> None:
        """The relay goes, or is killed: for the recorder that is the same."""
        os.close(self.wake_fd)

    def notes(self) -> list[str]:
        """All its notes, after it has exited."""
        text = b""
        while is_readable(self.notes_fd, DEADLINE_S) and (data := os.read(self.notes_fd, 4096)):
            text += data
        assert os.waitpid(self.pid, 0)[1] == 0
        os.close(self.notes_fd)
        return text.decode().splitlines()


@pytest.fixture(autouse=True)
def accuser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the judge, which a forked recorder inherits: findings do not matter here."""
    monkeypatch.setattr("mcpproxy.record.recorder.process.standard_observer", Accuser)
    monkeypatch.setattr("mcpproxy.record.recorder.recovery.standard_observer", Accuser)


@pytest.fixture(autouse=True)
def own_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recorder that is forked here is in the session of the tests, whose priority stays as it is."""
    for change in ("lower", "restore"):
        monkeypatch.setattr(f"mcpproxy.record.relay.priority.{change}", lambda: None)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "s.jsonl"


def until(holds: Callable[[], bool]) -> None:
    """Wait for another process that sends us no signal: test again and again until the deadline."""
    for _ in range(DEADLINE_S * 100):
        if holds():
            return
        select.select([], [], [], 0.01)
    raise AssertionError("never came true")


def frames(trace: Path) -> list[bytes]:
    return [event.raw for event in open_trace(trace).events() if isinstance(event, Frame)]


def test_a_session_from_start_to_end(trace: Path) -> None:
    folder = JournalFolder(trace, [start(os.getpid())])
    recorder = Forked(trace)
    for number in range(5):
        until(lambda: recorder.asleep[0] == 1)
        folder.append(1, packed(client(PING)))
        recorder.wake()
        until(lambda count=number + 1: trace.read_bytes().count(b'"type":"frame"') == count)
    folder.append(1, packed(EXIT))
    recorder.wake()
    # The times in this journal are made up, so it seems to be judged hours after it passed.
    notes = [re.sub(r" judged up to \S+ s late;", "", note) for note in recorder.notes()]
    assert notes == [
        "mcpproxy: warning TEST-001 client, frame 1: 1 events seen",
        "mcpproxy: 5 frames from the client, 0 from the server; 5 of 5 calls unanswered;"
        " 5 warnings, 1 info (see mcpproxy show);"
        f" TEST-001 client 4 more times; trace {trace}",
    ]
    recorder.leave()
    assert not folder.path.exists()
    assert frames(trace) == [PING[:-1]] * 5


@pytest.mark.parametrize(
    ("records", "code", "how"),
    [
        ([], 1, "the server exited with 1"),
        ([stderr(TRACEBACK)], 1, "the server exited with 1: ConnectionError: no route to db:5432"),
        ([mark(journal.SERVER_EOF)], 1, "the server exited with 1"),
        ([mark(journal.CLIENT_EOF), stderr(TRACEBACK, 5)], 1, ""),
        ([mark(journal.SIGNAL, b"SIGTERM")], 143, ""),
        ([stderr(b"bye")], 0, ""),
    ],
    ids=["false", "a traceback", "stdout ends first", "the client left", "a signal", "no error"],
)
def test_a_server_that_failed_before_any_message_is_told_as_in_the_list(
    trace: Path, records: list[Entry], code: int, how: str
) -> None:
    folder = JournalFolder(trace, [start(os.getpid())])
    recorder = Forked(trace)
    for record in (*records, mark(journal.EXIT, b'{"ending":"exited","code":%d}' % code, 900)):
        until(lambda: recorder.asleep[0] == 1)
        folder.append(1, packed(record))
        recorder.wake()
    [told] = recorder.notes()
    recorder.leave()
    assert told.startswith("mcpproxy: 0 frames from the client, 0 from the server; ")
    assert (f"server; {how}; nothing to judge; " in told) == ("nothing to judge" in told) == bool(how)
    with open_view(str(trace)) as view:
        assert view.not_begun == how
    assert recording(str(trace)).has_not_begun == bool(how)


def test_records_of_a_relay_that_has_exited_are_still_recorded(trace: Path) -> None:
    JournalFolder(trace, [START, client(b"1\n" * 10_000), server(b"2\n"), EXIT])
    recorder = Forked(trace, "off")
    recorder.leave()
    [told] = recorder.notes()
    assert told.startswith("mcpproxy: 10,000 frames from the client, 1 from the server; ")
    assert len(frames(trace)) == 10_001


def test_a_relay_that_is_killed_leaves_a_trace_that_is_cut(trace: Path) -> None:
    folder = JournalFolder(trace, [START, client(PING)])
    recorder = Forked(trace)
    until(lambda: recorder.asleep[0] == 1)
    folder.append(
        1, packed(server(b'{"jsonrpc":"2.0","id":1,"result":{}}\n'))
    )  # and killed before it woke us
    recorder.leave()
    recorder.notes()
    opened = open_trace(trace)
    *_, close = opened.events()
    assert isinstance(close, Close)
    assert close.ending == "cut"
    assert len(frames(trace)) == 2
    assert opened.notes == ["the recording was cut: mcpproxy was killed before the session ended"]


def test_a_recorder_that_is_killed_leaves_the_journal(trace: Path) -> None:
    folder = JournalFolder(trace, [START, client(PING)])
    recorder = Forked(trace)
    until(lambda: recorder.asleep[0] == 1)
    os.kill(recorder.pid, signal.SIGKILL)
    os.waitpid(recorder.pid, 0)
    folder.append(1, packed(server(b'{"jsonrpc":"2.0","id":1,"result":{}}\n'), EXIT))
    assert len(frames(trace)) == 2
    assert not folder.path.exists()
    os.close(recorder.notes_fd)
    recorder.leave()


def test_quiet_says_nothing(trace: Path) -> None:
    JournalFolder(trace, [START, client(b"not json\n"), EXIT])
    recorder = Forked(trace, quiet=True)
    assert recorder.notes() == []
    recorder.leave()
    assert frames(trace) == [b"not json"]


def test_machines_get_findings_in_json(trace: Path) -> None:
    JournalFolder(trace, [START, client(b"not json\nneither\n"), EXIT])
    recorder = Forked(trace, "json")
    *findings, last = recorder.notes()
    recorder.leave()
    assert [json.loads(line)["rule"] for line in findings] == ["TEST-001", "TEST-001", "TEST-002"]
    assert json.loads(last)["message"].startswith("2 frames from the client, 0 from the server; ")


def test_a_file_that_is_there_is_not_touched(trace: Path) -> None:
    folder = JournalFolder(trace, [START, EXIT])
    trace.write_bytes(b"precious\n")
    recorder = Forked(trace)
    assert recorder.notes() == [f"mcpproxy: not recorded: {trace}: exists already; name another file"]
    recorder.leave()
    assert trace.read_bytes() == b"precious\n"
    assert folder.path.exists()


def test_without_a_journal_it_says_so(trace: Path) -> None:
    recorder = Forked(trace)
    recorder.leave()
    assert recorder.notes() == [
        f"mcpproxy: not recorded: {journal.folder(str(trace))}: the journal is gone;"
        " leave it alone while a session lives"
    ]


def test_a_fault_of_ours_keeps_the_journal(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("out of ideas")

    monkeypatch.setattr(RecordingPipeline, "drain", broken)
    folder = JournalFolder(trace, [start()])
    recorder = Forked(trace)
    [told] = recorder.notes()
    recorder.leave()
    assert told.startswith("mcpproxy: the recorder stopped, a fault of mcpproxy: RuntimeError(")
    assert told.endswith("; the journal is kept, please report it")
    assert folder.path.exists()


def test_a_journal_of_something_else_is_said_and_kept(trace: Path) -> None:
    folder = JournalFolder(trace, [(journal.START, b"not json", 0, 0)])
    recorder = Forked(trace)
    assert recorder.notes() == ["mcpproxy: not recorded: a record that is not JSON"]
    recorder.leave()
    assert folder.path.exists()


def test_a_full_disk_is_said_and_the_trace_says_what_is_missing(trace: Path) -> None:
    folder = JournalFolder(trace, [START, client(PING * 2000)])
    recorder = Forked(trace, "off", room=40_000)
    until(lambda: trace.exists() and trace.stat().st_size == 40_000)
    folder.append(1, packed(EXIT))
    recorder.leave()
    first, last = recorder.notes()
    assert first == "mcpproxy: cannot write the trace: File too large; the session goes on, trying again"
    assert "; the trace is incomplete: File too large; trace " in last
    opened = open_trace(trace)
    kept = sum(isinstance(event, Frame) for event in opened.events())
    assert opened.notes == [
        f"{(2000 - kept) * len(PING)} bytes are missing: the trace could not be written: File too large"
    ]
    assert not folder.path.exists()


def test_the_recorder_runs_as_a_command_where_fork_is_missing(trace: Path) -> None:
    folder = JournalFolder(trace, [START])
    with subprocess.Popen(
        [sys.executable, "-m", "mcpproxy.record.recorder", str(trace), "--live", "off"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # it changes the priority of its session
    ) as recorder:
        assert recorder.stdin
        for _ in range(3):
            folder.append(1, packed(client(PING)))
            recorder.stdin.write(b"\0")
            recorder.stdin.flush()
        _, notes = recorder.communicate(timeout=DEADLINE_S)
    assert recorder.returncode == 0
    assert (
        notes.decode().splitlines()[-1].startswith("mcpproxy: 3 frames from the client, 0 from the server; ")
    )
    assert len(frames(trace)) == 3
    assert not folder.path.exists()


# The ways of waiting, one by one.


class Scripted:
    """A journal that has more records a given number of times, and a shared byte that keeps its values."""

    def __init__(self, *answers: bool) -> None:
        self.answers = list(answers)
        self.written: list[int] = []

    def has_more(self) -> bool:
        return self.answers.pop(0)

    def __setitem__(self, index: int, value: int, /) -> None:
        self.written.append(value)


@pytest.fixture
def pipe() -> Generator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for fd in ends:
        try:
            os.close(fd)
        except OSError:
            pass


def test_while_records_come_the_recorder_only_naps(pipe: tuple[int, int]) -> None:
    script = Scripted(True)
    assert not Wakeup(pipe[0], script).await_more(script.has_more)
    assert script.written == []


def test_a_record_that_comes_before_the_sleep_is_not_missed(pipe: tuple[int, int]) -> None:
    script = Scripted(False, True)
    assert not Wakeup(pipe[0], script).await_more(script.has_more)
    assert script.written == [1, 0]


def test_a_byte_in_the_pipe_ends_the_sleep(pipe: tuple[int, int]) -> None:
    script = Scripted(False, False)

    def call_when_asleep() -> bool:
        os.write(pipe[1], b"\0" * (script.written == [1]))
        return script.has_more()

    assert not Wakeup(pipe[0], script).await_more(call_when_asleep)
    assert script.written == [1, 0]


def test_the_end_of_the_relay_ends_its_sleep(pipe: tuple[int, int]) -> None:
    script = Scripted(False, False)

    def leave_when_asleep() -> bool:
        if script.written == [1]:
            os.close(pipe[1])
        return script.has_more()

    assert Wakeup(pipe[0], script).await_more(leave_when_asleep)


@pytest.mark.parametrize("asleep", [None, Scripted()])
def test_the_end_of_the_relay_ends_a_pause(pipe: tuple[int, int], asleep: Scripted | None) -> None:
    wake = Wakeup(pipe[0], asleep)
    assert not wake.pause(0.001)
    os.write(pipe[1], b"\0")
    assert not wake.pause(0.001)
    os.close(pipe[1])
    assert wake.pause(0.001)
    assert wake.await_more(lambda: True)


def test_all_that_the_relay_still_writes_is_read_until_it_has_left(pipe: tuple[int, int]) -> None:
    wake = Wakeup(pipe[0], None)
    os.write(pipe[1], b"\0" + journal.UNWRITTEN + b"late")
    os.close(pipe[1])
    wake.await_end()
    assert wake.unwritten == b"late"


# Following a trace while it is recorded.


def test_a_session_is_followed_while_it_lives(trace: Path) -> None:
    folder = JournalFolder(trace, [START])
    recorder = Forked(trace, quiet=True)
    until(lambda: recorder.asleep[0] == 1)  # by then it has the lock
    followed = (event for event in follow(trace, poll_s=0.001) if not isinstance(event, Finding))
    for number in range(1, 4):
        folder.append(1, packed(client(PING, number)))
        recorder.wake()
        assert next(followed) == Frame(number, "client", PING[:-1], number)
    folder.append(1, packed(EXIT))
    recorder.leave()
    assert list(followed) == [Close("exited", 0, None, 900)]
    recorder.notes()


def test_a_session_whose_recorder_is_killed_is_followed_to_its_end(trace: Path) -> None:
    folder = JournalFolder(trace, [START, client(PING)])
    recorder = Forked(trace, quiet=True)
    until(trace.exists)
    followed = (event for event in follow(trace, poll_s=0.001) if not isinstance(event, Finding))
    found: list[Event] = [next(followed)]
    os.kill(recorder.pid, signal.SIGKILL)
    os.waitpid(recorder.pid, 0)
    folder.append(1, packed(server(b"[]\n"), EXIT))
    found += followed
    assert [type(event).__name__ for event in found] == ["Frame", "Frame", "Close"]
    os.close(recorder.notes_fd)
    recorder.leave()


def _delete(trace: Path) -> None:
    trace.unlink()


def _move(trace: Path) -> None:
    trace.rename(trace.with_name("elsewhere.jsonl"))


def _cut(trace: Path) -> None:
    os.truncate(trace, 10)


def _replace(trace: Path) -> None:
    trace.unlink()
    trace.write_text("something else")


def _leave_alone(trace: Path) -> None:
    assert trace.exists()


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (_delete, " (was deleted while the session ran: nothing of it is left)"),
        (_move, " (is not there any more: it was moved or deleted while the session ran)"),
        (_cut, " (was cut short while the session ran: what is missing is lost)"),
        (_replace, " (was replaced by another file while the session ran)"),
        (_leave_alone, ""),
    ],
)
def test_the_summary_says_what_became_of_the_trace(
    trace: Path, harm: Callable[[Path], None], told: str
) -> None:
    folder = JournalFolder(trace, [START, client(PING)])
    recorder = Forked(trace)
    until(lambda: recorder.asleep[0] == 1)
    harm(trace)
    folder.append(1, packed(EXIT))
    recorder.leave()
    *_, summary = recorder.notes()
    assert summary.endswith(f"; trace {trace}{told}")


def test_the_summary_names_the_file_of_several_that_is_gone(trace: Path) -> None:
    asked = json.loads(START[1]) | {"rotate": {"bytes": 2500}}
    first = (START[0], json.dumps(asked).encode(), START[2], 0)
    folder = JournalFolder(trace, [first, *[client(PING, at) for at in range(100)]])
    recorder = Forked(trace, "off")
    until(lambda: recorder.asleep[0] == 1)
    (trace.parent / "s.2.jsonl").unlink()
    folder.append(1, packed(EXIT))
    recorder.leave()
    *_, summary = recorder.notes()
    assert summary.endswith(
        "(s.2.jsonl is not there any more: it was moved or deleted while the session ran)"
    )
