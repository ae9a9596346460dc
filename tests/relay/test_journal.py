"""The journal's writer: records are whole, losses are counted, nothing raises."""

import errno
import json
import os
import resource
import stat
from pathlib import Path

import pytest

from mcpproxy.record.relay import journal
from mcpproxy.record.relay.journal import CLIENT, EXIT, GAP, SERVER, SERVER_EOF, START, STDERR, Journal
from tests.recorder.limits import file_size_limit
from tests.relay.hosts import Host, behind, peer, read_journal, stream

SECOND = journal.RETRY_NS


def test_records_come_back_as_they_were_written(tmp_path: Path) -> None:
    trace = str(tmp_path / "t.jsonl")
    written = [
        (CLIENT, 7, b'{"id":1}\n'),
        (SERVER, 8, bytes(range(256))),
        (STDERR, 9, b""),
        (EXIT, 10, b"{}"),
    ]
    writer = Journal(trace, b'{"label":"x"}', 5)
    for kind, at_ns, payload in written:
        writer.append(kind, at_ns, memoryview(payload))
    writer.close(11)
    assert read_journal(trace) == [(START, 5, b'{"label":"x"}'), *written]


def test_a_closed_journal_writes_nowhere(tmp_path: Path) -> None:
    """Least of all to the file that has got its number."""
    writer = Journal(str(tmp_path / "t.jsonl"), b"{}", 0)
    writer.close(1)
    with (tmp_path / "other").open("wb", buffering=0) as first, (tmp_path / "another").open("wb") as second:
        writer.append(CLIENT, 2, b"late")
        assert writer.close(3) == b""
        first.write(b"mine")
        second.write(b"mine")
    assert [path.read_bytes() for path in sorted(tmp_path.glob("*o*er"))] == [b"mine", b"mine"]


def test_folder_and_segments_are_private(tmp_path: Path) -> None:
    writer = Journal(str(tmp_path / "t.jsonl"), b"{}", 0)
    modes = [stat.S_IMODE(os.stat(path).st_mode) for path in (writer.folder, f"{writer.folder}/00000001")]
    writer.close(0)
    assert modes == [0o700, 0o600]


def test_a_segment_is_left_when_it_has_grown_past_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "SEGMENT_BYTES", 1000)
    trace = str(tmp_path / "t.jsonl")
    writer = Journal(trace, b"{}", 0)
    for number in range(100):
        writer.append(CLIENT, number, b"x" * 100)
    writer.close(100)
    sizes = [path.stat().st_size for path in sorted(Path(writer.folder).glob("0*"))]
    assert all(1000 <= size < 1000 + 120 for size in sizes[:-1])
    assert [at_ns for _, at_ns, _ in read_journal(trace)] == [0, *range(100)]


def test_below_the_reserve_no_segment_begins_until_there_is_room_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "SEGMENT_BYTES", 1000)
    short = ["too little is free"]
    monkeypatch.setattr(journal, "shortage", lambda path, reserve: short[0])  # pyright: ignore[reportUnknownLambdaType,reportUnknownArgumentType]
    trace = str(tmp_path / "t.jsonl")
    notices: list[str] = []
    writer = Journal(trace, b"{}", 0, reserve=1)
    writer.on_notice = notices.append
    writer.append(CLIENT, 1, b"x" * 100)
    writer.append(SERVER, 2, b"x" * 10)
    short[0] = ""
    for at_ns in range(SECOND + 1, SECOND + 11):
        writer.append(CLIENT, at_ns, b"y" * 100)
    assert writer.close(SECOND + 12) == b""
    kinds = [kind for kind, _, _ in read_journal(trace)]
    assert kinds == [START, GAP, *[CLIENT] * 10]
    gaps = [json.loads(payload) for kind, _, payload in read_journal(trace) if kind == GAP]
    assert gaps == [{"reason": "too little is free", "client": 100, "server": 10, "stderr": 0}]
    assert [notice.partition(" (")[0] for notice in notices] == [
        "recording interrupted",
        "recording again; the trace marks what is missing",
    ]


def test_a_reserve_is_free_or_not(tmp_path: Path) -> None:
    assert journal.shortage(str(tmp_path), 1) == ""
    assert journal.shortage(str(tmp_path), 1 << 60).startswith("less than 1.05e+06 TiB is free on the disk")
    assert journal.shortage(str(tmp_path / "nowhere"), 1 << 60) == ""


def test_beyond_the_limit_the_loss_is_counted_until_segments_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "SEGMENT_BYTES", 1000)
    monkeypatch.setattr(journal, "LIMIT_BYTES", 5000)
    trace = str(tmp_path / "t.jsonl")
    told: list[str] = []
    writer = Journal(trace, b"{}", 0)
    writer.on_notice = told.append
    for _ in range(100):
        writer.append(CLIENT, 0, b"x" * 100)
    assert len(told) == 1
    assert "too far behind" in told[0]
    assert sum(path.stat().st_size for path in Path(writer.folder).iterdir()) < 5000 + 1000
    kept = len(stream(read_journal(trace), CLIENT))

    os.unlink(f"{writer.folder}/00000001")
    os.unlink(f"{writer.folder}/00000002")
    writer.append(SERVER, SECOND - 1, b"still within the second")
    writer.append(SERVER, SECOND, b"again")
    writer.close(SECOND)
    gap, last = read_journal(trace)[-2:]
    assert gap[0] == GAP
    assert json.loads(gap[2]) == {
        "reason": "the recorder is too far behind",
        "client": 10_000 - kept,
        "server": 23,
        "stderr": 0,
    }
    assert last == (SERVER, SECOND, b"again")
    assert len(told) == 2


def test_a_full_disk_loses_bytes_but_no_count(tmp_path: Path) -> None:
    trace = str(tmp_path / "t.jsonl")
    told: list[str] = []
    writer = Journal(trace, b"{}", 0)
    writer.on_notice = told.append
    with file_size_limit(10_000):
        for number in range(100):
            writer.append(CLIENT if number % 2 else STDERR, 0, b"%04d" % number * 100)
        writer.append(SERVER_EOF, 0)
    writer.append(SERVER, SECOND, b"there is room again")
    writer.append(EXIT, SECOND, b"{}")
    writer.close(SECOND)

    records = read_journal(trace)
    kinds = [kind for kind, _, _ in records]
    at = kinds.index(GAP)
    gap = json.loads(records[at][2])
    assert gap["client"] + len(stream(records, CLIENT)) == 20_000
    assert gap["stderr"] + len(stream(records, STDERR)) == 20_000
    assert gap["client"] > 0
    assert gap["server"] == 0
    assert kinds[at + 1 :] == [SERVER_EOF, SERVER, EXIT]  # what was no bytes was held back, not lost
    assert [line.partition(" (")[0] for line in told] == [
        "recording interrupted",
        "recording again; the trace marks what is missing",
    ]


def test_room_again_only_at_the_end(tmp_path: Path) -> None:
    trace = str(tmp_path / "t.jsonl")
    writer = Journal(trace, b"{}", 0)
    with file_size_limit(1000):
        writer.append(SERVER, 0, b"x" * 2000)
        writer.append(EXIT, 0, b"{}")
    writer.close(0)
    (_, (gap, _, payload), (last, _, _)) = read_journal(trace)
    assert (gap, last) == (GAP, EXIT)
    assert json.loads(payload)["server"] == 2000


def test_no_room_to_the_end(tmp_path: Path) -> None:
    trace = str(tmp_path / "t.jsonl")
    writer = Journal(trace, b"{}", 0)
    with file_size_limit(1):
        writer.append(SERVER, 0, b"x")
        writer.append(EXIT, SECOND, b"{}")
        writer.close(2 * SECOND)
    assert read_journal(trace) == [(START, 0, b"{}")]


def test_a_journal_that_cannot_be_started_leaves_nothing(tmp_path: Path) -> None:
    with file_size_limit(10), pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        Journal(str(tmp_path / "t.jsonl"), b"a start record of some length", 0)
    assert list(tmp_path.iterdir()) == []


def test_a_journal_is_nobody_elses(tmp_path: Path) -> None:
    Journal(str(tmp_path / "t.jsonl"), b"{}", 0).close(0)
    with pytest.raises(FileExistsError):
        Journal(str(tmp_path / "t.jsonl"), b"{}", 0)


def test_a_session_on_a_full_disk_goes_on(tmp_path: Path) -> None:
    trace = str(tmp_path / "t.jsonl")
    chunk = b"x" * 50_000
    limited = ["sh", "-c", 'ulimit -S -f 100 && exec "$@"', "sh", *behind("stdio", peer("echo"), trace)]
    with Host(limited) as host:
        for _ in range(20):
            host.write(chunk)
            assert host.read(len(chunk)) == chunk
        host.until_said(b"recording interrupted (")
        unlimited = resource.RLIM_INFINITY
        resource.prlimit(host.process.pid, resource.RLIMIT_FSIZE, (unlimited, unlimited))
        host.end_input()
        assert host.wait() == 0
        assert host.all_errors().count(b"mcpproxy: ") == 2
    records = read_journal(trace)
    gap = json.loads(stream(records, GAP))
    assert gap["client"] + len(stream(records, CLIENT)) == 1_000_000
    assert gap["server"] + len(stream(records, SERVER)) == 1_000_000
    assert records[-1][0] == EXIT


@pytest.mark.parametrize("over", ["pipes", "sockets"])
def test_our_line_does_not_tear_a_chunk_of_the_servers_stderr(over: str, tmp_path: Path) -> None:
    command = behind("stdio", peer("flood", "2", str(4 << 20)), str(tmp_path / "t.jsonl"))
    with Host(["sh", "-c", 'ulimit -S -f 100 && exec "$@"', "sh", *command], over) as host:
        host.end_input()
        assert host.rest() == b"done\n"
        assert host.wait() == 0
        lines = host.all_errors().splitlines(keepends=True)
    assert [line for line in lines if line.startswith(b"mcpproxy: recording interrupted (")]
    theirs = b"".join(line for line in lines if not line.startswith(b"mcpproxy: "))
    assert theirs == b"0123456789abcde\n" * (4 << 16)
