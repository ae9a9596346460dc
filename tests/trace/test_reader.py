"""The reader: a session comes back as it was, and every broken file is one clear error."""

import os
import pickle
from collections.abc import Generator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcpproxy.errors import McpProxyError, TraceError
from mcpproxy.judge.session.frame import Close, Eof, Event, Finding, Frame, Gap, Stderr
from mcpproxy.read.opening import follow, open_trace
from mcpproxy.record.recorder.lock import Lock
from mcpproxy.record.relay import journal
from mcpproxy.record.trace import reader
from mcpproxy.record.trace.encode import encode, encode_close, encode_finding, encode_header
from mcpproxy.record.trace.records import Encoded, Header, Recorded, Tally
from mcpproxy.record.trace.writer import TraceWriter
from tests.trace import events as some

HEADER = Header(1, "0.1.0", "stdio", ("srv",), "srv", "/", 0, "2026-11-21T10:20:30.123456Z", 99)
PING = Frame(1, "client", b'{"jsonrpc":"2.0","id":1,"method":"ping"}', 10)
PONG = Frame(2, "server", b'{"jsonrpc":"2.0","id":1,"result":{}}', 20)
FINDING = Finding("RPC-001", "error", "server", "why", 2)
EXITED = Close("exited", 0, None, 30)
TALLY = Tally({"client": 1, "server": 1}, {"error": 1, "warning": 0, "info": 0})

LINES = [
    encode_header(HEADER),
    encode(PING),
    encode(PONG),
    encode_finding(FINDING),
    encode_close(EXITED, TALLY),
]
WHOLE = b"".join(LINES)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "s.jsonl"


def write(path: Path, header: Header, items: list[Recorded | Close | Finding], tally: Tally) -> None:
    path.unlink(missing_ok=True)
    writer = TraceWriter(str(path))
    writer.write(encode_header(header))
    for item in items:
        match item:
            case Close():
                writer.write(encode_close(item, tally))
            case Finding():
                writer.write(encode_finding(item))
            case _:
                writer.write(encode(item))
    assert writer.flush()
    writer.close()


def test_a_session_comes_back(file: Path) -> None:
    file.write_bytes(WHOLE)
    trace = open_trace(file)
    assert trace.header == HEADER
    assert list(trace.events()) == [PING, PONG, FINDING, EXITED]
    assert (trace.complete, trace.notes, trace.tally) == (True, [], TALLY)


def test_its_findings_alone_are_read_past_whatever_is_damaged(file: Path) -> None:
    file.write_bytes(b"".join([LINES[0], b"{}\n", *LINES[1:4], LINES[3][:40] + b"\n", LINES[3][:-1]]))
    assert list(open_trace(file).findings()) == [FINDING, FINDING]


def test_it_can_be_read_again(file: Path) -> None:
    file.write_bytes(WHOLE + b"\n")
    trace = open_trace(str(file))
    assert list(trace.events()) == list(trace.events())
    assert trace.complete


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(some.headers, st.lists(st.one_of(some.events, some.findings)), st.none() | some.closes, some.tallies)
def test_what_was_written_is_read_to_the_byte(
    file: Path, header: Header, items: list[Recorded | Close | Finding], close: Close | None, tally: Tally
) -> None:
    if close:
        items = [*items, close]
    write(file, header, items, tally)
    trace = open_trace(file)
    assert trace.header == header
    assert list(trace.records()) == items
    assert list(trace.events()) == [item for item in items if not isinstance(item, Encoded)]


# What is wrong with a recording is said, not raised.
NOTES: dict[str, tuple[bytes, list[str]]] = {
    "no close record": (b"".join(LINES[:-1]), ["no close record: the recording was cut off"]),
    "torn last line": (
        b"".join(LINES[:2]) + LINES[2][:-3],
        ["line 3: cut off mid-record; 2 records read", "no close record: the recording was cut off"],
    ),
    "torn behind the close record": (WHOLE + b'{"ty', ["line 6: cut off mid-record; 5 records read"]),
    "the proxy was killed": (
        b"".join(LINES[:-1]) + encode_close(Close("cut"), TALLY),
        ["the recording was cut: mcpproxy was killed before the session ended"],
    ),
    "a gap": (
        b"".join([LINES[0], encode(Gap("the disk was full", 1, 2, 3)), *LINES[1:]]),
        ["6 bytes are missing: the disk was full"],
    ),
    "a gap of one byte": (
        b"".join([LINES[0], encode(Gap("the disk was full", 1)), *LINES[1:]]),
        ["1 byte is missing: the disk was full"],
    ),
    "a gap of unknown size": (
        b"".join([LINES[0], encode(Gap("the HAR holds no body of an answer")), *LINES[1:]]),
        ["the HAR holds no body of an answer"],
    ),
    "a record was taken out": (
        b"".join([*LINES[:2], *LINES[3:]]),
        ["the close record counts 2 frames, the file holds 1"],
    ),
}


@pytest.mark.parametrize(("content", "notes"), NOTES.values(), ids=NOTES)
def test_an_incomplete_recording_says_what_is_missing(file: Path, content: bytes, notes: list[str]) -> None:
    file.write_bytes(content)
    trace = open_trace(file)
    for _ in trace.events():
        pass
    assert (trace.complete, trace.notes) == (False, notes)


def test_a_last_line_that_only_lacks_its_line_feed_is_read(file: Path) -> None:
    file.write_bytes(WHOLE[:-1])
    trace = open_trace(file)
    assert list(trace.events()) == [PING, PONG, FINDING, EXITED]
    assert trace.complete


def test_cut_anywhere_it_gives_the_records_before(file: Path) -> None:
    ends = list(accumulate(map(len, LINES)))
    for size in range(ends[0], len(WHOLE)):
        file.write_bytes(WHOLE[:size])
        # A record is whole, too, when only its line feed is missing.
        whole = sum(end - 1 <= size for end in ends[1:])
        trace = open_trace(file)
        assert list(trace.events()) == [PING, PONG, FINDING, EXITED][:whole]
        assert trace.complete == (whole == 4)


NOT_OURS = "not an mcpproxy trace; none of the 8 other formats fits"
FILES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", ": the file is empty; nothing was recorded: record again"),
    "cut in the header": (
        LINES[0][:50],
        ":1: cut off in the header; nothing can be read from it: record again",
    ),
    "a header alone, without its end": (
        LINES[0][:-1],
        ":1: cut off in the header; nothing can be read from it: record again",
    ),
    "other JSON": (b'{"logs":{"version":"1.2"}}\n', f":1: {NOT_OURS}"),
    "other text": (b"hello\n", f":1: {NOT_OURS}"),
    "text without lines": (b"hello", f":1: {NOT_OURS}"),
    "binary garbage": (bytes(range(256)) * 64, f":1: {NOT_OURS}"),
    "zeros": (bytes(100_000), f":1: {NOT_OURS}"),
    "no header": (WHOLE[len(LINES[0]) :], f":1: {NOT_OURS}"),
    "a header with a bad member": (b'{"type":"header","format":1,"pid":"x"}\n', f":1: {NOT_OURS}"),
    "a format that is no number": (b'{"type":"header","format":"one"}\n', f":1: {NOT_OURS}"),
    "a newer format": (
        b'{"type":"header","format":2}\n',
        ":1: written by format 2, this mcpproxy reads up to 1; please update",
    ),
    "garbage in the middle": (
        LINES[0] + b"\xff\n" + LINES[1],
        ":2: not a trace record; the record before it is whole",
    ),
    "two traces in one": (
        LINES[0] + LINES[1] + WHOLE,
        ":3: a second header: two traces in one file; the 2 records before it are whole",
    ),
    "more behind the end": (
        WHOLE + LINES[1],
        ":6: a record after the close record; the 5 records before it are whole",
    ),
}


def message_of(path: str | os.PathLike[str]) -> str:
    with pytest.raises(TraceError) as told:
        for _ in open_trace(path).events():
            pass
    assert isinstance(told.value, McpProxyError)
    assert "\n" not in str(told.value)
    return told.value.lines[0]


@pytest.mark.parametrize(("content", "text"), FILES.values(), ids=FILES)
def test_a_broken_file_is_one_line(file: Path, content: bytes, text: str) -> None:
    file.write_bytes(content)
    assert message_of(file) == f"{file}{text}"


def test_a_line_longer_than_any_record_is_not_read_into_memory(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_LINE_LIMIT", 1000)
    file.write_bytes(LINES[0] + bytes(5000))
    assert message_of(file) == f"{file}:2: a line longer than any record; the file is damaged: record again"


def test_following_a_trace_that_nobody_writes_ends(file: Path) -> None:
    file.write_bytes(WHOLE)
    assert list(follow(file)) == [PING, PONG, FINDING, EXITED]
    file.write_bytes(b"".join([*LINES[:2], b"\n", LINES[2], LINES[3][:9]]))
    assert list(follow(file)) == [PING, PONG]


def test_following_a_damaged_trace_is_an_error(file: Path) -> None:
    file.write_bytes(b"".join([*LINES[:2], b"{}\n", LINES[2]]))
    followed = follow(file)
    assert next(followed) == PING
    with pytest.raises(TraceError, match=r":3: a record of no known type; the 2 records before it are whole"):
        next(followed)


def test_following_a_second_header_is_an_error(file: Path) -> None:
    file.write_bytes(LINES[0] * 2)
    with pytest.raises(TraceError, match=r":2: a second header"):
        next(follow(file))


def test_following_waits_for_a_recorder_that_starts(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(journal.folder(str(file)))
    folder.mkdir()
    lock = Lock.take(str(folder))
    assert lock

    def work(for_s: float) -> None:
        """The recorder's work: one step each time the reader waits."""
        step, _ = steps.pop(0), for_s
        step()

    steps = [
        lambda: file.touch(),
        lambda: append(LINES[0][:20]),
        lambda: append(LINES[0][20:]),
        lambda: append(LINES[1][:20]),
        lambda: append(LINES[1][20:] + LINES[2]),
        lambda: append(LINES[4]),
    ]

    def append(data: bytes) -> None:
        with file.open("ab") as trace:
            trace.write(data)

    monkeypatch.setattr("mcpproxy.read.opening.time.sleep", work)
    assert list(follow(file)) == [PING, PONG, EXITED]
    assert steps == []
    lock.release()


def test_following_what_is_not_there_is_an_error(file: Path) -> None:
    with pytest.raises(TraceError, match="no such file"):
        next(follow(file))


def test_a_missing_file(file: Path) -> None:
    assert message_of(file) == f"{file}: no such file; mcpproxy list shows recordings and their labels"


def test_a_directory(tmp_path: Path) -> None:
    assert message_of(tmp_path) == f"{tmp_path}: is a directory; name a trace file in it"


def test_a_pipe_is_not_waited_for(file: Path) -> None:
    os.mkfifo(file)
    assert message_of(file) == f"{file}: is a pipe, not a regular file; copy what it gives into a file first"


def test_a_name_that_no_file_can_have() -> None:
    assert message_of("a\0b") == "a\0b: no file can have this name; check the path"
    assert message_of("x" * 5000) == f"{'x' * 5000}: File name too long; check the path"


@contextmanager
def nobody() -> Generator[None]:
    """Without the rights of root, who may read everything."""
    if os.getuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_an_unreadable_file(file: Path) -> None:
    file.write_bytes(WHOLE)
    file.chmod(0)
    with nobody():
        assert message_of(file) == f"{file}: permission denied; run as the user who recorded it"


def test_a_disk_that_fails(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def __enter__(self) -> "Failing":
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def readline(self, limit: int) -> bytes:
            raise OSError(5, "Input/output error")

    file.write_bytes(WHOLE)
    trace = open_trace(file)

    def broken(path: str) -> BinaryIO:
        return cast("BinaryIO", Failing())

    monkeypatch.setattr(reader, "open_file", broken)
    with pytest.raises(TraceError, match=r":1: Input/output error; copy the file and try again$"):
        list(trace.events())


def test_an_error_survives_another_process() -> None:
    error = TraceError("s.jsonl", 118, "not a trace record", "the 117 records before it are whole")
    assert str(error) == "s.jsonl:118: not a trace record; the 117 records before it are whole"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def read_all(path: Path) -> list[Event | Finding] | None:
    try:
        return list(open_trace(path).events())
    except TraceError:
        return None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    read_all(file)
    file.write_bytes(LINES[0] + content)
    read_all(file)


MUTATIONS = st.lists(
    st.tuples(st.integers(0, len(WHOLE)), st.integers(0, 3), st.binary(max_size=3)), min_size=1, max_size=4
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(MUTATIONS)
def test_a_mutated_trace_is_read_or_refused(file: Path, mutations: list[tuple[int, int, bytes]]) -> None:
    content = WHOLE
    for at, gone, put in mutations:
        content = content[:at] + put + content[at + gone :]
    file.write_bytes(content)
    for event in read_all(file) or []:
        assert isinstance(event, Frame | Stderr | Eof | Gap | Close | Finding)
