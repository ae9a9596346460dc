"""A full disk: the journal keeps the traffic, and at the end the trace says what is missing."""

from pathlib import Path

import pytest

from mcpproxy.judge.session.frame import Close, Event, Finding, Frame, Gap, Stderr
from mcpproxy.read.opening import open_trace
from mcpproxy.record.recorder import pipeline
from mcpproxy.record.recorder.judge import SafeJudge
from mcpproxy.record.recorder.stderr_notes import StderrNotes
from mcpproxy.record.relay import journal
from mcpproxy.record.trace.reader import read_trace
from tests.recorder.journals import (
    EXIT,
    START,
    Accuser,
    Entry,
    JournalFolder,
    client,
    gap,
    mark,
    packed,
    read,
    recording,
    server,
    stderr,
)
from tests.recorder.limits import file_size_limit

CALLS = [
    entry
    for id in range(200)
    for entry in (
        client(b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n' % id, id),
        server(b'{"jsonrpc":"2.0","id":%d,"result":{}}\n' % id, id),
        stderr(b"served %d\n" % id, id),
    )
]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "s.jsonl"


def sizes(events: list[Event | Finding]) -> list[int]:
    """How many bytes of the client, the server and its stderr are in the trace or counted as missing."""
    total = [0, 0, 0]
    for event in events:
        match event:
            case Frame():
                total[event.sender == "server"] += len(event.raw) + event.terminated
            case Stderr():
                total[2] += len(event.raw) + event.terminated
            case Gap():
                for place, count in enumerate((event.client_bytes, event.server_bytes, event.stderr_bytes)):
                    total[place] += count
            case _:
                pass
    return total


def passed(entries: list[Entry]) -> list[int]:
    return [sum(len(payload) for kind, payload, *_ in entries if kind == stream) for stream in (1, 2, 3)]


def test_recording_goes_on_when_there_is_room_again(trace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    JournalFolder(trace, [START, *CALLS], [EXIT])
    live = StderrNotes(2)
    session, writer = recording(trace, live=live)
    with file_size_limit(5000):
        session.drain()
        session.drain()
        assert session.is_stuck
        assert not session.finish()
    session.drain()
    assert session.finish()
    assert sizes(read(trace)) == passed(CALLS)
    writer.close()
    live.flush()
    notes = [line for line in capfd.readouterr().err.splitlines() if "cannot write" in line]
    assert notes == ["mcpproxy: cannot write the trace: File too large; the session goes on, trying again"]


@pytest.mark.parametrize("room", [0, 100, 20_000, 20_100, 40_000])
@pytest.mark.parametrize("saved", [0, 3000, 1 << 20])
def test_in_the_end_the_rest_becomes_a_gap(
    trace: Path, room: int, saved: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what is in the file is judged: judging it again gives the findings that it holds."""
    monkeypatch.setattr(pipeline, "_SAVED_BYTES", saved)
    folder = JournalFolder(
        trace, [START, *CALLS, client(b"half")], [client(b"f"), *CALLS, gap(client=7), EXIT]
    )
    session, writer = recording(trace)
    with file_size_limit(room):
        session.drain()
        assert session.is_stuck
        assert not session.finish()
    # The journal goes, and with it comes the room for the end.
    with file_size_limit(max(room, 1000)):
        assert session.give_up() == "the trace is incomplete: File too large"
    writer.close()
    assert folder.names() == []
    opened = open_trace(trace)
    events = list(opened.events())
    *_, missing, finding, close = events
    assert isinstance(missing, Gap)
    assert missing.reason == "the trace could not be written: File too large"
    assert isinstance(finding, Finding)
    assert close == Close("exited", 0, None, 900)
    lost = passed([*CALLS, client(b"halff"), *CALLS])
    assert sizes(events) == [lost[0] + 7, lost[1], lost[2]]
    assert session.tally == opened.tally
    assert len(opened.notes) == 1
    judge = SafeJudge(Accuser)
    assert [event for event in events if isinstance(event, Finding)] == [
        found for event in events if not isinstance(event, Finding) for found in judge.observe(event)
    ]


def test_nothing_is_lost_when_the_journal_was_what_filled_the_disk(trace: Path) -> None:
    folder = JournalFolder(trace, [START, *CALLS], [client(b"1\n"), gap(client=7), EXIT])
    session, writer = recording(trace)
    with file_size_limit(5000):
        session.drain()
        assert not session.finish()
    assert session.give_up() == ""
    writer.close()
    assert folder.names() == []
    opened = open_trace(trace)
    assert sizes(list(opened.events())) == passed([*CALLS, client(b"1\n" + b"." * 7)])
    assert opened.notes == ["7 bytes are missing: full"]


def test_what_memory_does_not_hold_is_a_gap(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "_SAVED_BYTES", 10)
    JournalFolder(
        trace, [START, *CALLS], [client(b"1\n2\n"), server(b"x\n" * 10), client(b"3\n"), gap(client=7), EXIT]
    )
    session, writer = recording(trace)
    with file_size_limit(5000):
        session.drain()
    assert session.give_up() == "the trace is incomplete: File too large"
    writer.close()
    gaps = [event for event in read(trace) if isinstance(event, Gap)]
    assert [(one.client_bytes, one.server_bytes) for one in gaps] == [(9, 20)]


def test_a_relay_that_was_killed_on_a_full_disk(trace: Path) -> None:
    JournalFolder(trace, [START, *CALLS])
    session, writer = recording(trace)
    with file_size_limit(20_000):
        session.drain()
        assert not session.finish()
        assert session.give_up() == "the trace is incomplete: File too large"
    writer.close()
    assert isinstance(close := read(trace)[-1], Close)
    assert close.ending == "cut"


def test_the_close_record_alone_does_not_fit(trace: Path) -> None:
    JournalFolder(trace, [START, *CALLS, EXIT])
    session, writer = recording(trace)
    session.drain()
    with file_size_limit(writer.size + 10):
        assert not session.finish()
        assert session.give_up() == "the trace is incomplete: File too large"
    writer.close()
    assert sizes(read(trace)) == passed(CALLS)
    assert isinstance(read(trace)[-1], Close)


def test_the_close_record_waits_for_room_and_is_written_once(trace: Path) -> None:
    JournalFolder(trace, [START, *CALLS, EXIT])
    session, writer = recording(trace)
    session.drain()
    with file_size_limit(writer.size + 10):
        assert not session.finish()
    assert session.give_up() == ""
    writer.close()
    opened = open_trace(trace)
    assert sizes(list(opened.events())) == passed(CALLS)
    assert opened.complete


def test_no_room_at_all(trace: Path) -> None:
    JournalFolder(trace, [START, *CALLS, EXIT])
    session, writer = recording(trace)
    with file_size_limit(0):
        session.drain()
        assert not session.finish()
        assert session.give_up() == "the trace has no end: File too large"
    writer.close()
    assert trace.read_bytes() == b""


def test_a_trace_that_cannot_be_shortened_is_left_as_it_is(
    trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(reserve: int = 0) -> int:
        raise OSError(5, "Input/output error")

    JournalFolder(trace, [START, *CALLS, EXIT])
    session, writer = recording(trace)
    with file_size_limit(5000):
        session.drain()
        monkeypatch.setattr(writer, "rewind", fail)
        assert session.give_up() == "the trace has no end: File too large"
    writer.close()
    assert read_trace(str(trace)).header.pid == 0


def test_records_without_bytes_are_skipped_when_the_rest_is_dropped(trace: Path) -> None:
    JournalFolder(trace, [START, *CALLS], [mark(journal.CLIENT_EOF), mark(journal.SIGNAL, b"SIGTERM"), EXIT])
    session, writer = recording(trace)
    with file_size_limit(5000):
        session.drain()
        assert session.give_up()
    writer.close()
    assert [type(event).__name__ for event in read(trace)[-3:]] == ["Gap", "Finding", "Close"]


def test_segments_stay_while_the_checkpoint_has_no_room(trace: Path) -> None:
    folder = JournalFolder(trace, [START, client(b"1\n")], [client(b"2\n")])
    (folder.path / "checkpoint.new").mkdir()
    session, writer = recording(trace)
    session.drain()
    assert folder.names() == ["00000001", "00000002", "checkpoint.new"]
    (folder.path / "checkpoint.new").rmdir()
    folder.append(2, packed(client(b"3\n")))
    session.drain()
    assert folder.names() == ["00000002", "checkpoint"]
    writer.close()


def test_below_the_reserve_the_journal_keeps_the_traffic(
    trace: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    JournalFolder(trace, [START, *CALLS], [EXIT])
    live = StderrNotes(2)
    session, writer = recording(trace, live=live)
    short = ["too little is free"]
    writer.size = 1  # the beginning of a file is always written
    writer.shortage = lambda: short[0]
    session.drain()
    assert session.is_stuck
    short[0], writer.size = "", 0
    session.drain()
    assert session.finish()
    assert sizes(read(trace)) == passed(CALLS)
    writer.close()
    live.flush()
    assert "cannot write" not in capfd.readouterr().err  # nothing is lost, and the relay says what is


def test_below_the_reserve_a_recording_still_gets_its_end(trace: Path) -> None:
    folder = JournalFolder(trace, [START, *CALLS], [EXIT])
    session, writer = recording(trace)
    writer.size = 1
    writer.shortage = lambda: "too little is free"
    session.drain()
    assert not session.finish()
    writer.size = 0
    assert session.give_up() == ""
    writer.close()
    assert folder.names() == []
    assert sizes(read(trace)) == passed(CALLS)
