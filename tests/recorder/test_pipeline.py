"""The pipeline: which trace a session becomes."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcpproxy.judge.session.frame import Close, Eof, Event, Finding, Frame, Gap, Signal, Stderr
from mcpproxy.record.recorder import pipeline, trace_sink
from mcpproxy.record.recorder.stderr_notes import StderrNotes
from mcpproxy.record.relay import journal
from mcpproxy.record.trace.reader import read_trace
from mcpproxy.record.trace.records import Header
from mcpproxy.record.trace.writer import BATCH_BYTES
from tests.recorder.http_journals import CONVERSATION
from tests.recorder.journals import (
    EXIT,
    SESSION,
    START,
    Accuser,
    Entry,
    Fragile,
    JournalFolder,
    client,
    gap,
    mark,
    packed,
    read,
    record,
    recording,
    server,
    stderr,
)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "s.jsonl"


def events(trace: Path) -> list[Event | Finding]:
    """The events in the trace, without the findings."""
    return [event for event in read(trace) if not isinstance(event, Finding)]


def test_a_session_with_one_of_everything(trace: Path) -> None:
    JournalFolder(trace, SESSION)
    record(trace)
    assert read_trace(str(trace)).header == Header(
        1, "0.1.0", "stdio", ("srv", "\udcff"), "srv", "/", 0, "2026-11-21T10:20:30.123456Z", 1000
    )
    assert events(trace) == [
        Frame(1, "client", b'{"jsonrpc":"2.0","id":1,"method":"ping"}', 10),
        Frame(2, "server", b'{"jsonrpc":"2.0","id":1,"result":{}}', 20),
        Frame(3, "server", b"not json", 20),
        Stderr(b"log line", 21),
        Frame(4, "client", b'{"jsonrpc":"2.0","id":2,"method":"ping"}', 30),
        Stderr(b"half a line", 31),
        Stderr(b"\xff", 31),
        Signal("SIGTERM", 40),
        Frame(5, "client", b"no end", 50, terminated=False),
        Eof("client", 51),
        Frame(6, "server", b'{"jsonrpc":"2.0","id":2,"result":{}}', 60),
        Gap("full", 0, 5, 0, 4),
        Frame(7, "server", b"\xfe", 70),
        Eof("server", 71),
        Close("exited", 0, None, 900),
    ]


def test_each_finding_stands_behind_its_frame(trace: Path) -> None:
    JournalFolder(trace, [START, client(b"1\n2\n"), EXIT])
    record(trace)
    assert [type(item).__name__ for item in read(trace)] == [
        "Frame",
        "Finding",
        "Frame",
        "Finding",
        "Finding",
        "Close",
    ]
    opened = read_trace(str(trace))
    assert list(opened.events())
    assert opened.complete
    assert opened.tally
    assert opened.tally.frames == {"client": 2, "server": 0}
    assert opened.tally.findings == {"error": 0, "warning": 2, "info": 1}


def test_without_an_exit_record_the_recording_was_cut(trace: Path) -> None:
    JournalFolder(trace, [START, client(b"1\nhalf", 7), stderr(b"half", 8)])
    record(trace)
    assert events(trace) == [
        Frame(1, "client", b"1", 7),
        Frame(2, "client", b"half", 7, terminated=False, continues=True),
        Stderr(b"half", 8, terminated=False),
        Close("cut", observed_at_ns=8),
    ]


def test_a_line_that_runs_into_a_gap_is_a_piece(trace: Path) -> None:
    JournalFolder(
        trace, [START, client(b"hal", 1), server(b"whole", 2), gap(client=9), client(b"f\n"), server(b"!\n")]
    )
    record(trace)
    assert events(trace) == [
        Frame(1, "client", b"hal", 1, terminated=False, continues=True),
        Gap("full", 9, 0, 0, 4),
        Frame(2, "client", b"f", 1),
        Frame(3, "server", b"whole!", 2),
        Close("cut", observed_at_ns=2),
    ]


def test_records_of_another_version_are_passed_over(trace: Path) -> None:
    JournalFolder(trace, [START, mark(99, b"?"), EXIT])
    record(trace)
    assert events(trace) == [Close("exited", 0, None, 900)]


def test_a_large_frame_is_written_whole(trace: Path) -> None:
    raw = b'"' + b"x" * 2 * BATCH_BYTES + b'"'
    JournalFolder(trace, [START, client(b"1\n"), server(raw + b"\n2\n"), EXIT])
    record(trace)
    assert [event.raw for event in events(trace) if isinstance(event, Frame)] == [b"1", raw, b"2"]


@pytest.mark.parametrize("rest", [b"x" * 10, b"", b"x" * BATCH_BYTES], ids=["short", "empty", "long"])
@pytest.mark.parametrize("between", [b"", b"1\n" * 10], ids=["next", "after a run"])
def test_a_large_line_after_one_that_was_too_long_to_hold_is_judged(
    rest: bytes, between: bytes, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "_LINE_BYTES", 2 * BATCH_BYTES)
    large = b'"' + b"x" * BATCH_BYTES + b'"'
    JournalFolder(
        trace,
        [START, client(b"x" * 2 * BATCH_BYTES + b"x"), client(rest + b"\n" + between + large + b"\n"), EXIT],
    )
    record(trace)
    [*_, last] = [event for event in events(trace) if isinstance(event, Frame)]
    assert (last.raw, last.continues) == (large, False)


def test_a_judge_that_breaks_stops_the_judging_only(trace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    JournalFolder(trace, SESSION)
    live = StderrNotes(2, "off")
    session, writer = recording(trace, Fragile, live)
    session.drain()
    assert session.finish()
    writer.close()
    live.flush()
    assert sum(isinstance(event, Frame) for event in read(trace)) == 7
    assert [event.frame for event in read(trace) if isinstance(event, Finding)] == [1, 2]
    opened = read_trace(str(trace))
    for _ in opened.events():
        pass
    assert opened.tally
    assert opened.tally.judge_error == "RuntimeError: out of ideas at frame 3"
    assert capfd.readouterr().err == (
        "mcpproxy: judging stopped, a fault of mcpproxy: RuntimeError: out of ideas at frame 3;"
        " the recording goes on, please report it\n"
    )


def test_a_judge_that_cannot_even_start_stops_the_judging_only(
    trace: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    class Absent(Accuser):
        def __init__(self) -> None:
            raise KeyError

    JournalFolder(trace, SESSION)
    live = StderrNotes(2)
    session, writer = recording(trace, Absent, live)
    session.drain()
    assert session.finish()
    writer.close()
    live.flush()
    assert len(events(trace)) == 15
    assert "KeyError; the recording goes on" in capfd.readouterr().err


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.data())
def test_how_the_relay_read_the_bytes_does_not_matter(trace: Path, data: st.DataObject) -> None:
    """Any split of the streams into chunks, and of the chunks into passes, gives the same trace."""
    chunks: list[Entry] = []
    for kind, payload, at_ns, _ in SESSION:
        cuts = [0, *sorted(data.draw(st.lists(st.integers(0, len(payload)), max_size=3))), len(payload)]
        if kind not in (journal.CLIENT, journal.SERVER, journal.STDERR):
            cuts = [0, len(payload)]
        chunks += [(kind, payload[a:b], at_ns, 0) for a, b in pairwise(cuts)]
    content: list[bytes] = []
    for entries in (SESSION, chunks):
        trace.unlink(missing_ok=True)
        folder = JournalFolder(trace, [])
        session, writer = recording(trace)
        for entry in entries:
            folder.append(1, packed(entry))
            session.drain()
        assert session.finish()
        writer.close()
        content.append(trace.read_bytes())
        (folder.path / "00000001").unlink()
        folder.path.rmdir()
    assert content[0] == content[1]


def test_recorded_segments_are_deleted(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = JournalFolder(trace, [START, client(b"1\nhal")], [client(b"f\n")])
    session, writer = recording(trace)
    session.drain()
    assert folder.names() == ["00000002", "checkpoint"]
    writer.close()


def test_a_segment_stays_while_keeping_its_line_would_cost_more(
    trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline.journal, "SEGMENT_BYTES", 100)
    folder = JournalFolder(trace, [START, client(b"x" * 100)], [client(b"x" * 100)], [client(b"x" * 100)])
    session, writer = recording(trace)
    session.drain()
    assert folder.names() == ["00000001", "00000002", "00000003"]
    folder.append(3, packed(client(b"\nhal")))
    folder.append(4, packed(client(b"f\n")))
    session.drain()
    assert folder.names() == ["00000004", "checkpoint"]
    writer.close()


def test_http_is_recorded_alike_however_many_events_are_settled_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    traces: list[bytes] = []
    for most in (1, 3, 1000):
        monkeypatch.setattr(trace_sink, "_MOST_WAITING", most)
        trace = tmp_path / f"{most}.jsonl"
        JournalFolder(trace, CONVERSATION)
        record(trace)
        traces.append(trace.read_bytes())
    assert b'{"type":"finding","rule":"TEST-001"' in traces[0]
    assert traces[0] == traces[1] == traces[2]
