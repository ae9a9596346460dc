"""Whatever the peers send: what a recording takes on disk is bounded by a factor of what passed.

The factor is 4 for lines of 100 bytes and more and 32 for the shortest. What is the same for every recording
is not counted: the header and the close record, a few records for each connection, the first hundred findings
of each cause, and for each time that something was read the records of up to three short lines.
"""

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcpproxy.judge.observer.findings import IN_FULL, PER_FRAME
from mcpproxy.judge.ruleset import ruleset
from mcpproxy.judge.ruleset.selection import Selection
from mcpproxy.judge.session.frame import Finding, Frame, Note, Opaque, RequestHead, ResponseHead, Stderr
from mcpproxy.read.judging import judge
from mcpproxy.record.recorder.http.memory_budget import DECODED_BYTES, HELD_BYTES, Budget
from mcpproxy.record.recorder.judge import standard_observer
from mcpproxy.record.relay import journal
from mcpproxy.record.trace.reader import Trace, read_trace
from mcpproxy.record.trace.records import Tally
from tests.recorder import http_journals
from tests.recorder.journals import EXIT, START, Entry, JournalFolder, client, mark, recording, server, stderr
from tests.trace.bodies import body_bytes

CHUNK: Final = 64 << 10
PER_READ: Final = 300
PER_SLICE: Final = (
    (16 << 10) // 6 * 200
)  # a slice of decoded content is cut into events before these are counted
PER_CAUSE: Final = IN_FULL * 3000
SELECTION: Final = Selection.of(ruleset.load().catalogue, None, None, None)


def recorded(folder: Path, entries: Iterable[Entry]) -> Trace:
    trace = folder / "t.jsonl"
    trace.unlink(missing_ok=True)
    beside = JournalFolder(trace, list(entries))
    session, writer = recording(trace, standard_observer)
    session.drain()
    assert session.finish()
    writer.close()
    for name in beside.names():
        (beside.path / name).unlink()
    beside.path.rmdir()
    return read_trace(str(trace))


def chunks(data: bytes, size: int = CHUNK) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def said(trace: Trace, sender: str) -> bytes:
    """The exact bytes of one peer."""
    frames = [event for event in trace.events() if isinstance(event, Frame) and event.sender == sender]
    return b"".join(frame.raw + b"\n" * frame.terminated for frame in frames)


def tally_of(trace: Trace) -> Tally:
    list(trace.events())
    assert trace.tally is not None
    return trace.tally


def assert_judged_alike(trace: Trace) -> None:
    """Judged later, a recording has the same findings and the same counts as live."""
    live = [event for event in trace.events() if isinstance(event, Finding)]
    judged = judge(trace, ruleset.load(), SELECTION)
    assert list(judged.findings) == live
    assert judged.more == tally_of(trace).more


def without_findings(trace: Trace) -> int:
    lines = Path(trace.path).read_bytes().splitlines(keepends=True)
    return sum(len(line) for line in lines[1:-1] if b'"finding"' not in line[:20])


SHORT: Final = st.sampled_from(
    [b"", b"y", b"{}", b"[]", b"0", b'""', b"\x00", b"\xff", b"abcdefg", b'{"id":1}', b"\r"]
)


def long_line(unit: bytes, pad: int) -> bytes:
    return unit * (100 // len(unit) + 1) + b"x" * pad


UNITS: Final = (b"a", b"\x01", b'"', b"\\", b"\xff", "\N{SNOWMAN}".encode(), b"[0,", b"\x1b[0m", b"\\ud800")
LONG: Final = st.builds(long_line, st.sampled_from(UNITS), st.integers(0, 60))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(st.tuples(SHORT, st.integers(1, 2000)), min_size=1, max_size=6),
    at_once=st.integers(1000, CHUNK),
)
def test_short_lines_take_up_to_32_times_what_passed(
    lines: list[tuple[bytes, int]], at_once: int, tmp_path: Path
) -> None:
    passed = b"".join((line + b"\n") * count for line, count in lines)
    parts = chunks(passed, at_once)
    entries = [server(part, at) for at, part in enumerate(parts)] + [stderr(part) for part in parts]
    trace = recorded(tmp_path, [START, *entries, EXIT])
    assert without_findings(trace) <= 32 * 2 * len(passed) + PER_READ * 2 * len(parts)
    assert said(trace, "server") == passed
    errors = [event for event in trace.events() if isinstance(event, Stderr)]
    assert b"".join(line.raw + b"\n" * line.terminated for line in errors) == passed
    assert_judged_alike(trace)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(LONG, min_size=1, max_size=60), at_once=st.integers(1, CHUNK))
def test_lines_of_100_bytes_take_up_to_4_times_what_passed(
    lines: list[bytes], at_once: int, tmp_path: Path
) -> None:
    passed = b"".join(line + b"\n" for line in lines)
    parts = chunks(passed, at_once)
    trace = recorded(tmp_path, [START, *(server(part, at) for at, part in enumerate(parts)), EXIT])
    assert without_findings(trace) <= 4 * len(passed) + PER_READ
    assert said(trace, "server") == passed
    assert_judged_alike(trace)


def test_a_run_of_short_lines_shares_a_record(tmp_path: Path) -> None:
    trace = recorded(tmp_path, [START, server(b"a\nb\n\nd\n" + b'{"jsonrpc":"2.0"}\n', 7), EXIT])
    frames = [event for event in trace.events() if isinstance(event, Frame)]
    assert [(frame.seq, frame.raw, frame.observed_at_ns) for frame in frames] == [
        (1, b"a", 7),
        (2, b"b", 7),
        (3, b"", 7),
        (4, b"d", 7),
        (5, b'{"jsonrpc":"2.0"}', 7),
    ]
    lines = Path(trace.path).read_bytes().splitlines()
    assert lines[1] == b'{"type":"lines","seq":1,"count":4,"t":7,"from":"server","text":"a\\nb\\n\\nd"}'
    assert [json.loads(line)["seq"] for _, line in trace.lines() if b'"frame"' in line[:20]] == [
        1,
        2,
        3,
        4,
        5,
    ]


def test_findings_of_one_cause_are_listed_a_hundred_times_and_then_counted(tmp_path: Path) -> None:
    trace = recorded(tmp_path, [START, server(b"yes, this is noise\n" * 3000), EXIT])
    listed = [event for event in trace.events() if isinstance(event, Finding)]
    assert len(listed) == IN_FULL
    tally = tally_of(trace)
    assert [(one.rule, one.count) for one in tally.more] == [("STDIO-002", 2900)]
    assert sum(tally.total_findings.values()) == 3000
    assert_judged_alike(trace)


def test_findings_of_one_frame_are_bounded(tmp_path: Path) -> None:
    trace = recorded(
        tmp_path, [START, server(b'[{"jsonrpc":"2.0","id":1,"result":{}},' + b"0," * 5000 + b"0]\n"), EXIT]
    )
    listed = [event for event in trace.events() if isinstance(event, Finding)]
    assert len(listed) == PER_FRAME
    assert sum(tally_of(trace).total_findings.values()) == 5003
    assert_judged_alike(trace)


def test_what_a_finding_quotes_is_bounded(tmp_path: Path) -> None:
    name = b"n" * 30_000
    tool = (
        b'{"jsonrpc":"2.0","id":1,"method":"' + name + b'","params":{"' + name + b'":1,"' + name + b'":2}}\n'
    )
    trace = recorded(tmp_path, [START, client(tool * 20), EXIT])
    assert (
        max(len(line) for line in Path(trace.path).read_bytes().splitlines() if b'"finding"' in line[:20])
        < 3000
    )


def test_a_line_that_takes_too_much_memory_is_not_judged(tmp_path: Path) -> None:
    line = b"[" + b"0," * (4 << 20) + b"0]"
    trace = recorded(tmp_path, [START, *(server(part) for part in chunks(line + b"\n")), EXIT])
    assert said(trace, "server") == line + b"\n"
    assert Path(trace.path).stat().st_size < 2 * len(line)
    assert tally_of(trace).judge_error == "not judged, because that takes too much memory: 1 of the lines"
    assert not [event for event in trace.events() if isinstance(event, Finding)]
    assert_judged_alike(trace)


def post() -> list[Entry]:
    """A connection on which a request is under way."""
    return [
        http_journals.start(),
        http_journals.connect(),
        http_journals.client(http_journals.post(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')),
    ]


BOMBS: Final[dict[str, tuple[bytes, bytes, int]]] = {
    "events of nothing": (b"text/event-stream", b"data\n\n" * (6 << 20), DECODED_BYTES),
    "comments": (b"text/event-stream", b":\n\n" * (1 << 20), DECODED_BYTES // 8),
    "one body": (b"application/json", b"[" + b"0," * (6 << 20) + b"0]", DECODED_BYTES),
}
"""Media type, content, and how much of it may be decoded. Comments take longest, so there are fewer."""


@pytest.mark.parametrize("name", BOMBS)
def test_what_is_decoded_is_recorded_up_to_a_factor_of_what_passed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, content, allowance = BOMBS[name]
    monkeypatch.setattr(Budget, "decoded_left", allowance)
    bomb = gzip.compress(content)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
    answer = head % (kind, len(bomb)) + bomb
    trace = recorded(tmp_path, [*post(), *(http_journals.server(part) for part in chunks(answer)), EXIT])
    passed = len(answer)
    assert Path(trace.path).stat().st_size <= 32 * passed + 2 * allowance
    records = list(trace.records())
    assert body_bytes(records, 1, "server") == bomb
    (note,) = [record.why for record in records if isinstance(record, Note) and record.what == "not-decoded"]
    assert "content not recorded" in note


CONTENTS: Final = st.sampled_from(
    [b"data\n\n", b":\n\n", b"data: {}\n\n", b"\n", b"[[],", b"0,", b'"\\u0000"', b"x" * 4000]
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    unit=CONTENTS,
    count=st.integers(1, 20_000),
    codings=st.integers(0, 2),
    kind=st.sampled_from([b"text/event-stream", b"application/json"]),
)
def test_any_coded_content_takes_up_to_32_times_what_passed_and_an_allowance(
    unit: bytes, count: int, codings: int, kind: bytes, tmp_path: Path
) -> None:
    content = (unit * count)[: 4 << 20]
    for _ in range(codings):
        content = gzip.compress(content)
    coding = b"Content-Encoding: " + b", ".join([b"gzip"] * codings or [b"identity"])
    head = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\n%b\r\nContent-Length: %d\r\n\r\n"
    answer = head % (kind, coding, len(content)) + content
    allowance = 64 << 10
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Budget, "decoded_left", allowance)
        parts = chunks(answer)
        trace = recorded(tmp_path, [*post(), *(http_journals.server(part) for part in parts), EXIT])
    assert without_findings(trace) <= 32 * len(answer) + 2 * allowance + PER_READ * len(parts) + PER_SLICE
    assert body_bytes(list(trace.records()), 1, "server") == content


def test_comments_that_come_at_once_are_one_frame(tmp_path: Path) -> None:
    stream = b":\n\n" * 10_000 + b'data: {"jsonrpc":"2.0","id":1,"result":{}}\n\n'
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(stream)
    trace = recorded(tmp_path, [*post(), http_journals.server(head + stream), EXIT])
    assert Path(trace.path).stat().st_size < 32 * len(stream)
    assert body_bytes(list(trace.records()), 1, "server") == stream


def test_all_that_is_held_is_bounded_over_all_connections(tmp_path: Path) -> None:
    head = b"POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 15000000\r\n\r\n"
    part = b"x" * CHUNK
    entries: list[Entry] = [http_journals.start()]
    for number in range(1, 9):
        entries += [http_journals.connect(number), http_journals.client(head, 1, number)]
        entries += [http_journals.client(part, 1, number)] * (8 << 4)
    trace = recorded(tmp_path, [*entries, EXIT])
    notes = [record for record in trace.records() if isinstance(record, Note) and record.what == "not-judged"]
    assert len(notes) >= 4
    for number in range(1, 9):
        assert body_bytes(list(trace.records()), number, "client") == part * (8 << 4)


def assert_only_not_judged(trace: Trace) -> int:
    """The server is accused of nothing; on how many connections something was not judged."""
    events = list(trace.events())
    assert not [event for event in events if isinstance(event, Finding) and event.blame == "server"]
    return sum(isinstance(event, Note) and event.what == "not-judged" for event in events)


def test_unfinished_heads_are_bounded_over_all_connections(tmp_path: Path) -> None:
    """Every server sends 200 KiB of a head, and later the rest of its answer."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX: " + b"x" * (200 << 10)
    result = b'{"jsonrpc":"2.0","id":1,"result":{}}'
    rest = b"\r\nContent-Length: %d\r\n\r\n%b" % (len(result), result)
    numbers = range(1, 201)
    asked = http_journals.post(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    entries: list[Entry] = [http_journals.start()]
    for number in numbers:
        entries += [http_journals.connect(number), http_journals.client(asked, 1, number)]
        entries += [http_journals.server(part, 2, number) for part in chunks(head)]
    entries += [http_journals.server(rest, 3, number) for number in numbers]
    trace = recorded(tmp_path, [*entries, EXIT])
    # What is held is looked at each time that 2 MiB more have passed.
    assert abs(assert_only_not_judged(trace) - (len(numbers) - HELD_BYTES // len(head))) <= 10
    opaque = [event for event in trace.records() if isinstance(event, Opaque)]
    answered = [event for event in trace.events() if isinstance(event, ResponseHead)]
    assert len(answered) + len({event.connection for event in opaque}) == len(numbers)
    assert sum(event.size for event in opaque) == len(head + rest) * (len(numbers) - len(answered))
    assert "incomplete heads" in opaque[0].reason


def test_unanswered_requests_of_a_connection_are_bounded(tmp_path: Path) -> None:
    """Twenty thousand requests in a row. Another connection is not affected."""
    asked = http_journals.post(b'{"jsonrpc":"2.0","method":"notifications/x"}')
    entries = [*post(), http_journals.connect(2)]
    entries += [http_journals.client(part, 1, 2) for part in chunks(asked * 20_000)]
    entries += [http_journals.server(http_journals.answer(b'{"jsonrpc":"2.0","id":1,"result":{}}'), 2)]
    trace = recorded(tmp_path, [*entries, EXIT])
    events = list(trace.events())
    assert {
        event.connection for event in events if isinstance(event, Note) and event.what == "not-judged"
    } == {2}
    assert sum(isinstance(event, RequestHead) for event in events) < 10_000
    assert [event.status for event in events if isinstance(event, ResponseHead)] == [200]


def test_the_judge_forgets_and_accuses_nobody_of_what_it_forgot(tmp_path: Path) -> None:
    entries: list[Entry] = [START]
    for number in range(3000):
        id = b'"%d%b"' % (number, b"i" * 20_000)
        entries.append(client(b'{"jsonrpc":"2.0","id":%b,"method":"ping"}\n' % id))
    for number in range(3000):
        id = b'"%d%b"' % (number, b"i" * 20_000)
        entries.append(server(b'{"jsonrpc":"2.0","id":%b,"result":{}}\n' % id))
    trace = recorded(tmp_path, [*entries, EXIT])
    assert {event.rule for event in trace.events() if isinstance(event, Finding)} <= {"LIFE-001", "PROTO-005"}
    assert "had to be remembered" in str(tally_of(trace).judge_error)
    assert_judged_alike(trace)


def test_a_few_long_messages_are_remembered(tmp_path: Path) -> None:
    """Two calls of 8 MiB that wait for their answers at the same time."""
    text = b"x" * (8 << 20)
    call = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"t","arguments":{"x":"%b"}}}\n'
    trace = recorded(tmp_path, [START, client(call % (1, text)), client(call % (2, text)), EXIT])
    assert tally_of(trace).judge_error is None


def test_the_last_mark_is_not_lost(tmp_path: Path) -> None:
    """A run of lines at the end of a stream, before anything else."""
    trace = recorded(tmp_path, [START, stderr(b"\n" * 10), mark(journal.STDERR_EOF), EXIT])
    assert sum(isinstance(event, Stderr) for event in trace.events()) == 10
