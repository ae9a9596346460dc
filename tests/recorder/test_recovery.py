"""Sessions whose recorder was killed: the next command completes the trace, as if nothing had happened."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpproxy.errors import TraceError
from mcpproxy.judge.session.frame import Close, Finding, Frame
from mcpproxy.read.opening import await_finish, open_trace, when_begun
from mcpproxy.record.recorder.journal_reader import JournalReader
from mcpproxy.record.recorder.lock import Lock
from mcpproxy.record.recorder.pipeline import RecordingPipeline
from mcpproxy.record.recorder.recovery import recover
from mcpproxy.record.recorder.stderr_notes import StderrNotes
from mcpproxy.record.relay import journal
from mcpproxy.record.trace.writer import TraceWriter
from tests.recorder.journals import (
    EXIT,
    SESSION,
    START,
    Accuser,
    Entry,
    Fragile,
    JournalFolder,
    client,
    packed,
    record,
    recording,
    server,
    start,
)
from tests.recorder.limits import file_size_limit


@pytest.fixture
def process() -> "Iterator[subprocess.Popen[bytes]]":
    """Another process, which has just been started."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as started:
        yield started


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "s.jsonl"


def live_result(tmp_path: Path, *segments: list[Entry]) -> bytes:
    """The trace that a recorder which lives to the end writes."""
    other = tmp_path / "live.jsonl"
    JournalFolder(other, *segments)
    record(other)
    return other.read_bytes()


def is_gone(trace: Path) -> bool:
    return not Path(journal.folder(str(trace))).exists()


def test_without_a_journal_there_is_nothing_to_do(trace: Path) -> None:
    assert not recover(str(trace))


def test_a_journal_alone_becomes_the_trace(trace: Path, tmp_path: Path) -> None:
    JournalFolder(trace, SESSION)
    assert recover(str(trace), Accuser)
    assert trace.read_bytes() == live_result(tmp_path, SESSION)
    assert is_gone(trace)
    assert not recover(str(trace), Accuser)


class KilledError(BaseException):
    """The recorder is killed, at a moment that the test chooses."""


class MortalWriter(TraceWriter):
    """A writer whose process is killed after so many bytes, in the middle of a write if need be."""

    def __init__(self, path: str, life: int) -> None:
        super().__init__(path)
        self._life = life

    def flush(self) -> bool:
        short_of_life = sum(map(len, self._pending)) - (self._life - self.size)
        if short_of_life > 0:
            self._pending = [b"".join(self._pending)[:-short_of_life]]
            super().flush()
            raise KilledError
        return super().flush()


def run_until_terminated(session: RecordingPipeline) -> None:
    session.drain()
    session.finish()


def record_until_killed(folder: Path, writer: TraceWriter) -> None:
    """Record what a journal in ``folder`` holds until ``writer`` is killed, which it is."""
    reader = JournalReader(str(folder))
    with pytest.raises(KilledError):
        run_until_terminated(RecordingPipeline(reader, writer, Accuser, StderrNotes(None)))
    writer.close()
    reader.close()


SEGMENTS = [SESSION[:2], SESSION[2:5], SESSION[5:8], SESSION[8:12], SESSION[12:]]
"""The lines that are cut run over the ends of the segments."""


def test_killed_anywhere_the_trace_is_the_same(trace: Path, tmp_path: Path) -> None:
    whole = live_result(tmp_path, *SEGMENTS)
    for life in range(0, len(whole), 7):
        folder = JournalFolder(trace, *SEGMENTS)
        record_until_killed(folder.path, MortalWriter(str(trace), life))
        assert trace.stat().st_size == life
        assert recover(str(trace), Accuser)
        assert trace.read_bytes() == whole
        assert is_gone(trace)
        trace.unlink()


def test_a_recovery_that_is_killed_can_be_repeated(trace: Path, tmp_path: Path) -> None:
    whole = live_result(tmp_path, *SEGMENTS)
    folder = JournalFolder(trace, *SEGMENTS)
    session, writer = recording(trace)
    session.drain()
    writer.close()
    assert "checkpoint" in folder.names()
    kept = tmp_path / "kept"
    shutil.copytree(folder.path, kept)
    filed = trace.read_bytes()
    for size in range(len(filed), len(whole)):
        trace.write_bytes(whole[:size])
        shutil.rmtree(folder.path, ignore_errors=True)
        shutil.copytree(kept, folder.path)
        assert recover(str(trace), Accuser)
        assert trace.read_bytes() == whole


def test_killed_while_the_journal_was_deleted(trace: Path, tmp_path: Path) -> None:
    whole = live_result(tmp_path, *SEGMENTS)
    for left in ([], ["checkpoint"], ["00000004", "checkpoint", "lock"]):
        trace.write_bytes(whole)
        folder = JournalFolder(trace)
        for name in left:
            (folder.path / name).touch()
        assert recover(str(trace), Accuser)
        assert trace.read_bytes() == whole
        assert is_gone(trace)


def test_both_killed_the_recording_is_cut(trace: Path) -> None:
    folder = JournalFolder(trace, [START, client(b"1\n", 5), server(b"2\n3", 6)])
    folder.append(1, packed(server(b"torn"))[:-1])
    opened = open_trace(trace)
    found = [event for event in opened.events() if not isinstance(event, Finding)]
    assert found == [
        Frame(1, "client", b"1", 5),
        Frame(2, "server", b"2", 6),
        Frame(3, "server", b"3", 6, terminated=False, continues=True),
        Close("cut", observed_at_ns=6),
    ]
    assert opened.notes == ["the recording was cut: mcpproxy was killed before the session ended"]
    assert is_gone(trace)


def test_a_judge_that_broke_breaks_again(trace: Path, tmp_path: Path) -> None:
    other = tmp_path / "live.jsonl"
    JournalFolder(other, *SEGMENTS)
    record(other, Fragile)
    JournalFolder(trace, *SEGMENTS)
    session, writer = recording(trace, Fragile)
    session.drain()
    writer.close()
    assert recover(str(trace), Fragile)
    assert trace.read_bytes() == other.read_bytes()


def test_a_recorder_that_lives_is_left_alone(trace: Path) -> None:
    folder = JournalFolder(trace, SESSION[:-1])
    lock = Lock.take(str(folder.path))
    assert lock
    assert not recover(str(trace))
    session, writer = recording(trace)
    session.drain()
    opened = open_trace(trace)
    for _ in opened.events():
        pass
    assert opened.notes == ["5 bytes are missing: full", "still recording"]
    folder.append(1, packed(EXIT))
    session.drain()
    assert session.finish()
    for _ in opened.events():
        pass
    assert opened.notes == ["5 bytes are missing: full"]
    writer.close()
    lock.release()


def test_a_recorder_that_is_behind_when_its_session_is_over_is_waited_for(
    trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(pid, 0)
    folder = JournalFolder(trace, [start(pid), client(b"1\n")])
    code = "import sys; from mcpproxy.record.recorder.lock import Lock; lock = Lock.take(sys.argv[1])"
    command = [sys.executable, "-c", f"{code}; print(flush=True); sys.stdin.read()", str(folder.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as recorder:
        assert recorder.stdout is not None
        assert recorder.stdin is not None
        recorder.stdout.readline()  # it has the lock
        with pytest.raises(TraceError, match="no such file"):
            open_trace(trace, finish_s=0)
        waited: list[float] = []

        def sleep(seconds: float) -> None:
            waited.append(seconds)
            recorder.communicate()  # ends it

        monkeypatch.setattr(time, "sleep", sleep)
        [frame] = [event for event in open_trace(trace).events() if isinstance(event, Frame)]
    assert frame.raw == b"1"
    assert len(waited) == 1
    assert is_gone(trace)


def test_a_recording_whose_relay_lives_is_waited_for_as_long_as_is_said(
    trace: Path, process: "subprocess.Popen[bytes]"
) -> None:
    assert await_finish(str(trace), 0), "there is nothing to wait for"
    folder = JournalFolder(trace, [start(process.pid, time.monotonic_ns()), client(b"1\n")])
    assert not await_finish(str(trace), 0)
    folder.append(1, packed(EXIT))
    process.communicate()
    assert await_finish(str(trace), 30)
    assert is_gone(trace)


def test_a_recording_is_opened_as_soon_as_it_has_begun(trace: Path) -> None:
    paused: list[int] = []

    def pause() -> None:
        paused.append(1)
        if len(paused) == 2:
            trace.write_text("begun")

    assert when_begun(lambda: begun(trace), lambda: True, pause) == "begun"
    assert len(paused) == 2


def test_what_was_written_before_its_recorder_ended_is_opened(trace: Path) -> None:
    """The recorder writes the beginning and ends, both after the first attempt."""
    assert when_begun(lambda: begun(trace), lambda: not trace.write_text("begun"), unexpected) == "begun"


def test_a_recording_that_nobody_begins_is_not_waited_for(trace: Path) -> None:
    with pytest.raises(TraceError, match="no such file"):
        when_begun(lambda: begun(trace), lambda: False, unexpected)


def unexpected() -> None:
    pytest.fail("it is waited for")


def begun(trace: Path) -> str:
    if not trace.exists():
        raise TraceError(str(trace), None, "no such file", "record one")
    return trace.read_text()


def test_a_line_that_is_being_written_is_not_torn(trace: Path) -> None:
    folder = JournalFolder(trace, [START])
    lock = Lock.take(str(folder.path))
    assert lock
    record(trace)
    lines = trace.read_bytes().splitlines(keepends=True)
    trace.write_bytes(lines[0] + b'{"type":"fr')
    opened = open_trace(trace)
    assert list(opened.events()) == []
    assert opened.notes == ["still recording"]
    trace.write_bytes(lines[0][:20])
    with pytest.raises(TraceError, match="nothing is recorded yet; try again in a moment"):
        open_trace(trace)
    lock.release()


def test_a_relay_that_lives_is_left_alone(trace: Path, process: "subprocess.Popen[bytes]") -> None:
    """Its recorder was killed or has not started yet: the journal still grows."""
    JournalFolder(trace, [start(process.pid, time.monotonic_ns()), client(b"1\n")])
    assert not recover(str(trace))
    assert not is_gone(trace)


def test_a_process_that_has_got_the_number_of_the_relay_is_not_taken_for_it(
    trace: Path, process: "subprocess.Popen[bytes]"
) -> None:
    """In a container the relay is number 1 before it starts again, and after."""
    JournalFolder(trace, [start(process.pid, time.monotonic_ns() - 5_000_000_000), client(b"1\n")])
    assert recover(str(trace))
    [frame] = [event for event in open_trace(trace).events() if isinstance(event, Frame)]
    assert frame.raw == b"1"


def test_a_relay_that_is_gone_is_known_to_be(trace: Path) -> None:
    pid = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(pid, 0)
    JournalFolder(trace, [start(pid), client(b"1\n")])
    assert recover(str(trace))


def test_no_process_is_older_than_the_machine(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic_ns", lambda: 0)
    JournalFolder(trace, [start(os.getppid()), client(b"1\n")])
    assert recover(str(trace))


def test_a_journal_that_has_not_begun_is_left_alone(trace: Path) -> None:
    JournalFolder(trace)
    assert not recover(str(trace))


def test_a_journal_without_its_beginning_is_damaged(trace: Path) -> None:
    folder = JournalFolder(trace, [client(b"1\n")])
    with pytest.raises(TraceError, match="does not begin with a START record"):
        recover(str(trace))
    assert folder.names() == ["00000001", "lock"]


def test_another_file_keeps_its_content(trace: Path) -> None:
    JournalFolder(trace, SESSION)
    trace.write_bytes(b"my diary\n")
    with pytest.raises(TraceError, match="is not the trace of the journal beside it"):
        recover(str(trace))
    assert trace.read_bytes() == b"my diary\n"
    assert not is_gone(trace)


def test_a_trace_that_was_shortened_is_not_filled_with_zeros(trace: Path) -> None:
    JournalFolder(trace, *SEGMENTS)
    session, writer = recording(trace)
    session.drain()
    writer.close()
    os.truncate(trace, trace.stat().st_size // 2)
    opened = open_trace(trace)
    for _ in opened.events():
        pass
    assert opened.notes[0] == (
        "the journal beside it could not be recovered: is not the trace of the journal beside it"
    )
    assert not opened.complete


def test_a_full_disk_is_said_and_the_journal_stays(trace: Path, tmp_path: Path) -> None:
    whole = live_result(tmp_path, *SEGMENTS)
    for room in (len(whole) - 1, len(whole) // 2, 0):
        folder = JournalFolder(trace, *SEGMENTS)
        with file_size_limit(room), pytest.raises(TraceError, match="cannot be completed: File too large"):
            recover(str(trace), Accuser)
        assert folder.path.exists()
        assert recover(str(trace), Accuser)
        assert trace.read_bytes() == whole
        trace.unlink()


def test_a_folder_that_cannot_be_written_is_said(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class ReadOnly(TraceWriter):
        def flush(self) -> bool:
            self.fault = "Read-only file system"
            return False

    monkeypatch.setattr("mcpproxy.record.recorder.recovery.TraceWriter", ReadOnly)
    JournalFolder(trace, SESSION)
    with pytest.raises(
        TraceError, match="cannot be completed: Read-only file system; see to it and try again"
    ):
        recover(str(trace))


def test_a_lock_that_cannot_be_made_is_a_note(trace: Path, tmp_path: Path) -> None:
    trace.write_bytes(live_result(tmp_path, SESSION))
    folder = JournalFolder(trace, SESSION)
    (folder.path / "lock").mkdir()
    opened = open_trace(trace)
    assert sum(1 for _ in opened.events()) > 10
    assert opened.notes[0].endswith("the journal beside it is not ours, lock in it is a directory")
