"""A part of a recording: what goes with it, that it replays, that nobody is accused of what is missing."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from mcpproxy.judge.observer import Observer
from mcpproxy.judge.ruleset import catalogue
from mcpproxy.judge.session.frame import Close, Finding, Frame, RequestHead
from mcpproxy.peers.replay.recording import load
from mcpproxy.read.edit.trim import spans
from mcpproxy.read.opening import open_trace
from mcpproxy.record.trace.encode import encode, encode_close, encode_header
from mcpproxy.record.trace.records import Header, Tally
from tests.cli import recordings
from tests.cli.conftest import Mcpproxy
from tests.cli.recordings import CLEAN, HANDSHAKE, close, finding, frame
from tests.rules import runner
from tests.rules.runner import Fixture

PROGRESS = '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"%s","progress":1}}'


def call(id: int, name: str, token: str = "") -> str:
    meta = f',"_meta":{{"progressToken":"{token}"}}' if token else ""
    return f'{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{name}"{meta}}}}}'


def result(id: int) -> str:
    return f'{{"jsonrpc":"2.0","id":{id},"result":{{"content":[]}}}}'


def said(path: str) -> list[str | None]:
    [session] = load(path).sessions
    return [message.method for message in session.messages]


def seqs(path: str | Path) -> list[int]:
    return [event.seq for event in open_trace(path).events() if isinstance(event, Frame | RequestHead)]


BUSY = (
    *HANDSHAKE,
    frame(4, "client", call(7, "a", "t1")),
    frame(5, "client", call(8, "b", "t2")),
    frame(6, "server", PROGRESS % "t1"),
    frame(7, "server", PROGRESS % "t2"),
    frame(8, "server", '{"jsonrpc":"2.0","id":1,"method":"ping"}'),
    frame(9, "client", '{"jsonrpc":"2.0","id":1,"result":{}}'),
    frame(10, "server", result(7)),
    frame(11, "server", result(8)),
    finding("TOOL-001", 11, "no such tool"),
    frame(12, "client", call(9, "c")),
    frame(13, "server", result(9)),
    close(6, 7),
)


KEPT = {
    "an answer": (("--around", "10"), [1, 2, 3, 4, 6, 8, 9, 10]),
    "an answer of the client": (("--around", "9"), [1, 2, 3, 8, 9]),
    "a request": (("--frames", "12"), [1, 2, 3, 12, 13]),
    "several": (("--frames", "13-900,1"), [1, 2, 3, 12, 13]),
    "the beginning": (("--frames", "-3"), [1, 2, 3]),
    "a tool": (("--filter", "tool:c"), [1, 2, 3, 12, 13]),
    "two tools": (("--filter", "tool:a,c"), [1, 2, 3, 4, 6, 8, 9, 10, 12, 13]),
    "a finding": (("--filter", "rule:TOOL-001"), [1, 2, 3, 5, 7, 8, 9, 11]),
    "calls of the server": (("--filter", "from:server"), [1, 2, 3, 8, 9]),
    "every call": (("--filter", ""), list(range(1, 14))),
}


@pytest.mark.parametrize(("asked", "kept"), KEPT.values(), ids=KEPT)
def test_with_a_frame_goes_what_belongs_to_it(
    mcpproxy: Mcpproxy, tmp_path: Path, asked: tuple[str, ...], kept: list[int]
) -> None:
    path, out = recordings.write(tmp_path / "t.jsonl", BUSY), str(tmp_path / "part.jsonl")
    before = Path(path).read_bytes()
    assert mcpproxy("trim", path, *asked, "-o", out).code == 0
    trace = open_trace(out)
    assert seqs(out) == kept
    assert [e for e in open_trace(path).events() if isinstance(e, Frame) and e.seq in kept] == [
        e for e in trace.events() if isinstance(e, Frame)
    ]
    assert Path(path).read_bytes() == before
    if len(kept) < 11:
        assert trace.header.partial == f"trimmed to frames {spans(set(kept), list(range(1, 14)))} of 13"
    *_, end = trace.events()
    assert isinstance(end, Close)
    assert trace.tally is not None
    assert sum(trace.tally.frames.values()) == len(kept)
    assert trace.tally.findings["error"] == int(11 in kept)
    assert mcpproxy("check", out, "--ignore", "TOOL").code == 0
    assert mcpproxy("show", out).code == 0


def test_a_page_goes_with_those_before_it_and_a_finding_with_what_it_refers_to(
    mcpproxy: Mcpproxy, tmp_path: Path
) -> None:
    listing = '{"jsonrpc":"2.0","id":%d,"method":"tools/list","params":{%s}}'
    page = '{"jsonrpc":"2.0","id":%d,"result":{"tools":[]%s}}'
    records = (
        *HANDSHAKE,
        frame(4, "client", listing % (4, "")),
        frame(5, "server", page % (4, ',"nextCursor":"p2"')),
        frame(6, "client", call(5, "x")),
        frame(7, "server", result(5)),
        frame(8, "client", listing % (6, '"cursor":"p2"')),
        frame(9, "server", page % (6, "")),
        finding("TOOL-001", 7, "unknown").replace('"related":[]', '"related":[5]'),
        close(5, 4),
    )
    path = recordings.write(tmp_path / "t.jsonl", records)
    for around, kept in (("8", [1, 2, 3, 4, 5, 8, 9]), ("7", [1, 2, 3, 4, 5, 6, 7])):
        out = str(tmp_path / f"{around}.jsonl")
        assert mcpproxy("trim", path, "--around", around, "-o", out).code == 0
        assert seqs(out) == kept


def test_a_finding_of_a_frame_that_another_needs_keeps_what_it_refers_to(
    mcpproxy: Mcpproxy, tmp_path: Path
) -> None:
    records = (
        *HANDSHAKE,
        frame(4, "client", call(4, "x")),
        frame(5, "server", result(4)),
        frame(6, "client", call(5, "x")),
        frame(7, "server", result(5)),
        finding("TOOL-001", 7, "unknown").replace('"related":[]', '"related":[5]'),
        frame(8, "client", call(6, "x")),
        frame(9, "server", result(6)),
        close(5, 4),
    )
    path, out = recordings.write(tmp_path / "t.jsonl", records), str(tmp_path / "part.jsonl")
    assert mcpproxy("trim", path, "--frames", "6", "-o", out).code == 0
    assert seqs(out) == [1, 2, 3, 4, 5, 6, 7]


def test_a_part_replays(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    path, out = recordings.write(tmp_path / "t.jsonl", BUSY), str(tmp_path / "part.jsonl")
    mcpproxy("trim", path, "--around", "13", "-o", out)
    assert said(out) == ["initialize", None, "notifications/initialized", "tools/call", None]
    assert load(out).notes == ["trimmed to frames 1-3,12-13 of 13"]


def test_all_of_it_is_no_part(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    path, out = recordings.write(tmp_path / "t.jsonl", CLEAN), str(tmp_path / "part.jsonl")
    assert mcpproxy("trim", path, "--frames", "1-", "-o", out).code == 0
    assert Path(out).read_bytes().splitlines()[1:-1] == Path(path).read_bytes().splitlines()[1:-1]
    assert open_trace(out).header == open_trace(path).header


def write(path: Path, fixture: Fixture, revision: str) -> list[int]:
    """Put a session of the rule tests into a trace; the numbers in it."""
    events = [event for step in runner.steps(fixture, revision) for event in step.events]
    heads = [event.seq for event in events if isinstance(event, Frame | RequestHead)]
    with path.open("wb") as file:
        redaction = "values" if fixture.redacted else "none"
        file.write(encode_header(Header(transport="http", redaction=redaction)))
        for event in events:
            file.write(encode_close(event, Tally()) if isinstance(event, Close) else encode(event))
    return heads


def judged(path: Path) -> list[Finding]:
    trace = open_trace(path)
    observer = Observer(catalogue.load(), joined_late=trace.joined_late, redacted=trace.redacted)
    return [
        found
        for event in trace.events()
        if not isinstance(event, Finding)
        for found in observer.observe(event)
    ]


@pytest.mark.parametrize("part", range(4))
def test_no_part_of_a_lawful_session_breaks_a_rule(mcpproxy: Mcpproxy, tmp_path: Path, part: int) -> None:
    random = Random(part)
    good = [fixture for fixture in runner.fixtures() if not fixture.bad and fixture.revisions][part::4]
    for number, fixture in enumerate(good):
        path, out = tmp_path / f"{number}.jsonl", tmp_path / f"{number}.part.jsonl"
        seq = random.choice(write(path, fixture, fixture.revisions[-1]))
        assert mcpproxy("trim", str(path), "--around", str(seq), "-o", str(out)).code == 0
        found = [f for f in judged(out) if not f.rule.startswith(runner.REMARKS)]
        assert found == [], f"{fixture} around {seq}"


REFUSED = {
    "no such frame": (("--around", "99"), "it has none of these frames; it has 1 to 5"),
    "not a number": (("--frames", "a-b"), "are not frame numbers"),
    "backwards": (("--frames", "9-3"), "ends before it begins"),
    "nothing named": ((), "one of the arguments --frames --around --filter is required"),
    "a filter that nothing passes": (
        ("--filter", "tool:x"),
        "no call passes tool:x; mcpproxy show lists all",
    ),
    "no filter": (("--filter", "stauts:ok"), "filter, column 1: there is no stauts:; do you mean status:?"),
    "a filter and a frame": (("--filter", "tool:x", "--around", "1"), "not allowed with"),
    "both": (("--frames", "1", "--around", "1"), "not allowed with"),
    "a number without end": (("--frames", "9" * 30), "are not frame numbers"),
}


@pytest.mark.parametrize(("asked", "expected"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_trimmed(
    mcpproxy: Mcpproxy, tmp_path: Path, asked: tuple[str, ...], expected: str
) -> None:
    path, out = recordings.write(tmp_path / "t.jsonl", CLEAN), tmp_path / "o.jsonl"
    refused = mcpproxy("trim", path, *asked, "-o", str(out))
    assert (refused.code, refused.err.count("\n"), out.exists()) == (2, 1, False)
    assert expected in refused.err


def test_a_file_that_exists_is_not_touched(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    path = recordings.write(tmp_path / "t.jsonl", CLEAN)
    before = Path(path).read_bytes()
    refused = mcpproxy("trim", path, "--around", "4", "-o", path)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "exists already; name another file" in refused.err
    assert Path(path).read_bytes() == before


@pytest.mark.parametrize("damage", [b"\x00\xff\x01", b"{}\n", b'{"type":"frame"}\n'])
def test_a_damaged_trace_leaves_nothing(mcpproxy: Mcpproxy, tmp_path: Path, damage: bytes) -> None:
    path, out = Path(recordings.write(tmp_path / "t.jsonl", CLEAN[:4])), tmp_path / "o.jsonl"
    path.write_bytes(path.read_bytes() + damage + b"\n" + CLEAN[4].encode() + b"\n")
    refused = mcpproxy("trim", str(path), "--around", "3", "-o", str(out))
    assert (refused.code, refused.err.count("\n"), out.exists()) == (2, 1, False)


def test_the_header_keeps_what_was_partial_before(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    path = recordings.write(tmp_path / "t.jsonl", BUSY)
    first, second = str(tmp_path / "1.jsonl"), str(tmp_path / "2.jsonl")
    mcpproxy("trim", path, "--around", "10", "-o", first)
    assert mcpproxy("trim", first, "--around", "9", "--around", "2", "-o", second).code == 0
    header = open_trace(second).header
    assert header == replace(open_trace(path).header, partial=header.partial)
    assert [part.partition(" of ")[2] for part in header.partial.split("; ")] == ["13", "10"]
