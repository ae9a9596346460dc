"""A message counts from when its JSON is complete, even if its line feed comes later."""

from pathlib import Path

import pytest

from mcpproxy.judge.observer import Observer
from mcpproxy.judge.ruleset import catalogue
from mcpproxy.judge.session.frame import Eof, Event, Finding, Frame, Stderr
from mcpproxy.protocol.jsonrpc import Message, parse
from mcpproxy.record.recorder import line_order
from mcpproxy.record.recorder.judge import Observing
from mcpproxy.record.recorder.recovery import recover
from mcpproxy.record.relay import journal
from mcpproxy.record.trace.reader import read_trace
from tests.recorder.journals import (
    EXIT,
    START,
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

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
PONG = b'{"jsonrpc":"2.0","id":1,"result":{}}'
PING_2 = b'{"jsonrpc":"2.0","id":2,"method":"ping"}'
PONG_2 = b'{"jsonrpc":"2.0","id":2,"result":{}}'


def standard() -> Observing:
    return Observer(catalogue.load())


def recorded(tmp_path: Path, *entries: Entry) -> list[Event | Finding]:
    """What a recorder writes that sees each record of the journal as it comes."""
    trace = tmp_path / "s.jsonl"
    folder = JournalFolder(trace, [START])
    session, writer = recording(trace, standard)
    for entry in entries:
        folder.append(1, packed(entry))
        session.drain()
    assert session.finish()
    writer.close()
    events = list(read(trace))[:-1]
    assert [e for e in events if isinstance(e, Finding)] == judged_again(trace)
    times = [e.observed_at_ns for e in events if not isinstance(e, Finding)]
    assert times == sorted(times)
    return events


def judged_again(trace: Path) -> list[Finding]:
    observer = standard()
    events = [event for event in read_trace(str(trace)).events() if not isinstance(event, Finding)]
    return [finding for event in events for finding in observer.observe(event)]


def said(events: list[Event | Finding]) -> list[tuple[bytes, int] | str]:
    """Lines with their times, and the codes of findings."""
    return [
        (event.raw, event.observed_at_ns)
        if isinstance(event, Frame | Stderr)
        else event.rule
        if isinstance(event, Finding)
        else type(event).__name__
        for event in events
    ]


def test_an_answer_may_overtake_the_line_feed_of_its_request(tmp_path: Path) -> None:
    events = recorded(
        tmp_path,
        client(PING, 10),
        server(PONG + b"\n", 20),
        client(b"\n", 30),
        client(PING_2 + b"\n", 40),
        server(PONG_2 + b"\n", 50),
    )
    assert said(events) == [(PING, 10), (PONG, 20), (PING_2, 40), (PONG_2, 50)]


def test_so_may_the_answer_to_a_server(tmp_path: Path) -> None:
    events = recorded(tmp_path, server(PING, 10), client(PONG + b"\n", 20), server(b"\r\n", 30))
    assert said(events) == [(PING + b"\r", 10), (PONG, 20)]


def test_a_line_feed_may_come_with_the_next_message(tmp_path: Path) -> None:
    events = recorded(
        tmp_path,
        client(PING, 10),
        server(PONG + b"\n", 20),
        client(b"\n" + PING_2, 30),
        server(PONG_2 + b"\n", 40),
        mark(journal.CLIENT_EOF, at=50),
    )
    assert said(events) == [(PING, 10), (PONG, 20), (PING_2, 30), (PONG_2, 40), "Eof"]
    assert [event.terminated for event in events if isinstance(event, Frame)] == [True, True, False, True]


def test_both_may_write_their_line_feeds_late(tmp_path: Path) -> None:
    events = recorded(
        tmp_path,
        client(PING, 10),
        server(PONG, 20),
        client(b"\n", 30),
        client(PING_2, 40),
        server(b"\n", 50),
        server(PONG_2, 60),
        client(b"\n", 70),
        server(b"\n", 80),
    )
    assert said(events) == [(PING, 10), (PONG, 20), (PING_2, 40), (PONG_2, 60)]


def test_what_else_happens_keeps_its_place(tmp_path: Path) -> None:
    events = recorded(
        tmp_path,
        client(PING, 10),
        stderr(b"a log line\n", 11),
        mark(journal.SIGNAL, b"SIGINT", 12),
        server(PONG + b"\n", 13),
        mark(journal.SERVER_EOF, at=14),
        client(b" ", 15),
        client(b"\n", 16),
    )
    assert said(events) == [(PING + b" ", 10), (b"a log line", 11), "Signal", (PONG, 13), "Eof"]
    assert events[-1] == Eof("server", 14)


def test_an_answer_to_half_a_message_is_early(tmp_path: Path) -> None:
    events = recorded(
        tmp_path, client(PING[:-2], 10), server(PONG + b"\n", 20), client(PING[-2:] + b"\n", 30)
    )
    assert said(events) == [(PONG, 20), "PROTO-007", (PING, 30)]


def test_so_is_one_to_a_message_that_goes_on(tmp_path: Path) -> None:
    """What looks whole may be the first of two values on the line, which is no message."""
    events = recorded(
        tmp_path, client(PING, 10), server(PONG + b"\n", 20), client(PING_2, 30), client(b"\n", 40)
    )
    assert said(events) == [(PONG, 20), "PROTO-007", (PING + PING_2, 30), "RPC-001"]


def test_an_end_that_is_not_seen_makes_it_a_piece(tmp_path: Path) -> None:
    events = recorded(tmp_path, client(PING, 10), server(PONG + b"\n", 20), EXIT)
    assert said(events) == [(PING, 10), (PONG, 20)]
    assert events[0] == Frame(1, "client", PING, 10, terminated=False, continues=True)


def test_a_gap_makes_it_a_piece(tmp_path: Path) -> None:
    events = recorded(tmp_path, client(PING, 2), server(PONG + b"\n", 3), gap(server=9), client(b"\n", 5))
    assert said(events) == [(PING, 2), (PONG, 3), "Gap", (b"", 5)]


def test_what_waits_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_order, "_MOST_WAITING", 600)
    events = recorded(
        tmp_path,
        client(PING, 10),
        *(server(b'{"jsonrpc":"2.0","id":1,"result":{}}\n', at) for at in range(11, 15)),
        client(b"\n", 20),
    )
    assert said(events) == [(PING, 10), *((PONG, at) for at in range(11, 15)), (b"", 20)]
    assert events[0] == Frame(1, "client", PING, 10, terminated=False, continues=True)


def test_parsing_in_vain_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of braces that comes byte by byte is not parsed again for every byte."""
    monkeypatch.setattr(line_order, "_MOST_IN_VAIN", 100)
    parsed: list[bytes] = []

    def counted(raw: bytes) -> Message:
        parsed.append(raw)
        return parse(raw)

    monkeypatch.setattr(line_order, "parse", counted)
    chunks = [client(b"}", at) for at in range(10, 50)]
    recorded(tmp_path, *(entry for chunk in chunks for entry in (chunk, stderr(b"\n", chunk[2] - 1000))))
    assert sum(map(len, parsed)) < 150


def test_a_journal_is_kept_while_something_waits(tmp_path: Path) -> None:
    """The checkpoint holds the beginnings of lines, but not what waits for their ends."""
    trace = tmp_path / "s.jsonl"
    folder = JournalFolder(trace, [START, client(PING, 10), server(PONG + b"\n", 20)], [stderr(b"log\n", 30)])
    session, writer = recording(trace, standard)
    session.drain()
    assert folder.names() == ["00000001", "00000002"]
    folder.append(2, packed(client(b"\n", 40)))
    session.drain()
    assert session.finish()
    writer.close()
    assert said(list(read(trace))[:-1]) == [(PING, 10), (PONG, 20), (b"log", 30)]


def test_a_recorder_that_continues_keeps_the_order(tmp_path: Path) -> None:
    """A beginning of a line that a checkpoint holds is still a whole message."""
    trace = tmp_path / "s.jsonl"
    folder = JournalFolder(trace, [START, client(PING[:9], 9)], [client(PING[9:], 10)])
    session, writer = recording(trace, standard)
    session.drain()
    writer.close()
    assert "checkpoint" in folder.names()

    folder.append(2, packed(server(PONG + b"\n", 20), client(b"\n", 30), EXIT))
    assert recover(str(trace))
    assert said(list(read(trace))[:-1]) == [(PING, 10), (PONG, 20)]
