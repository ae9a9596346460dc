"""The notes on stderr: one line for each kind of finding, never waiting for the reader."""

import json
import os
from collections import Counter
from collections.abc import Generator
from dataclasses import replace

import pytest

from mcpproxy.judge.session.frame import Finding, Frame
from mcpproxy.judge.session.outcomes import CallCounts
from mcpproxy.record.recorder.stderr_notes import Mode, StderrNotes
from mcpproxy.record.trace.records import Tally

RETYPED = Finding(
    "PROTO-007", "error", "server", 'answered with "7", asked with 7', 12, (3,), "/id", None, "", "R-008"
)
LATE = Finding("SEQ-003", "warning", "client", "too early", 0, requirement="R-034")
NOTED = Finding("STDIO-002", "info", "server", "a banner", 1, requirement="R-057")
TALLY = Tally({"client": 3, "server": 2}, {"error": 2, "warning": 1, "info": 1})


class Pipe:
    """A pipe like the relay's: the writing end never blocks."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.writer, False)

    def close(self) -> None:
        for fd in (self.reader, self.writer):
            try:
                os.close(fd)
            except OSError:
                pass

    def text(self) -> str:
        return os.read(self.reader, 1 << 20).decode()


@pytest.fixture
def pipe() -> Generator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.close()


def told(pipe: Pipe, mode: Mode, *findings: Finding) -> list[str]:
    live = StderrNotes(pipe.writer, mode)
    for finding in findings:
        live.show_finding(finding)
    live.summarize("/t/s.jsonl", TALLY)
    live.flush()
    return pipe.text().splitlines()


SUMMARY = (
    "mcpproxy: 3 frames from the client, 2 from the server; 2 errors, 1 warning, 1 info (see mcpproxy show); "
    "trace /t/s.jsonl"
)
LISTED = SUMMARY.replace(" (see mcpproxy show)", "")


def test_one_line_says_rule_who_what_and_frame(pipe: Pipe) -> None:
    assert told(pipe, "text", RETYPED, LATE) == [
        'mcpproxy: error PROTO-007 server, frame 12: answered with "7", asked with 7',
        "mcpproxy: warning SEQ-003 client, session: too early",
        SUMMARY,
    ]


def test_the_second_of_a_kind_is_counted(pipe: Pipe) -> None:
    again = replace(RETYPED, frame=14, message="another")
    other_peer = replace(RETYPED, blame="client")
    other_requirement = replace(RETYPED, requirement="R-009")
    lines = told(pipe, "text", RETYPED, again, other_peer, again, other_requirement)
    assert len(lines) == 4
    assert lines[-1] == SUMMARY.replace("; trace", "; PROTO-007 server 2 more times; trace")


def test_what_came_once_more_is_told_in_the_singular(pipe: Pipe) -> None:
    again = replace(RETYPED, frame=14, message="another")
    lines = told(pipe, "text", RETYPED, again)
    assert lines[-1] == SUMMARY.replace("; trace", "; PROTO-007 server 1 more time; trace")


def test_findings_of_level_info_are_not_shown(pipe: Pipe) -> None:
    assert told(pipe, "text", NOTED) == [SUMMARY]


def test_json_shows_every_finding(pipe: Pipe) -> None:
    *lines, summary = told(pipe, "json", RETYPED, RETYPED, NOTED)
    assert [json.loads(line)["rule"] for line in lines] == ["PROTO-007", "PROTO-007", "STDIO-002"]
    members = "rule severity blame message frame related pointer revision source requirement"
    assert list(json.loads(lines[0])) == ["ts", "level", "event", *members.split()]
    told_last = json.loads(summary)
    assert (told_last["event"], told_last["level"]) == ("summary", "info")
    assert f"mcpproxy: {told_last['message']}" == LISTED


def test_off_leaves_the_summary(pipe: Pipe) -> None:
    assert told(pipe, "off", RETYPED) == [LISTED]


def test_what_mcpproxy_answered_itself_is_none_of_the_server(pipe: Pipe) -> None:
    live, tally = StderrNotes(pipe.writer), Tally()
    for frame in (Frame(1, "client", b"{}"), Frame(2, "server", b"{}", by_proxy=True)):
        tally.count(frame)
    live.summarize("s.jsonl", tally)
    live.flush()
    sides = "1 frame from the client, 0 from the server, 1 from mcpproxy"
    assert pipe.text() == f"mcpproxy: {sides}; no findings; trace s.jsonl\n"


def test_a_clean_session_says_so(pipe: Pipe) -> None:
    live = StderrNotes(pipe.writer)
    live.summarize("s.jsonl", Tally(), "the trace is incomplete")
    live.flush()
    assert pipe.text() == (
        "mcpproxy: 0 frames from the client, 0 from the server; no findings;"
        " the trace is incomplete; trace s.jsonl\n"
    )


def test_a_server_that_failed_before_any_message_is_no_clean_session(pipe: Pipe) -> None:
    live, failed_start = StderrNotes(pipe.writer), "the server exited with 1: KeyError: 'TOKEN'"
    live.summarize("s.jsonl", Tally(calls=CallCounts(0, 0, 0)), failed_start=failed_start)
    live.flush()
    frames = "0 frames from the client, 0 from the server"
    assert pipe.text() == f"mcpproxy: {frames}; {failed_start}; nothing to judge; trace s.jsonl\n"


@pytest.mark.parametrize(
    ("calls", "told"),
    [
        (CallCounts(5, 2, 1), "2 of 5 calls failed, 1 unanswered"),
        (CallCounts(5, 2, 0), "2 of 5 calls failed"),
        (CallCounts(5, 0, 1), "1 of 5 calls unanswered"),
        (CallCounts(5, 1, 0, 2), "1 of 5 calls failed, 2 cancelled"),
        (CallCounts(5, 0, 0, 1), "1 of 5 calls cancelled"),
        (CallCounts(5, 1, 0, refused=1), "1 of 5 calls failed, 1 refused"),
        (CallCounts(5, 0, 0, refused=2), "2 of 5 calls refused"),
        (CallCounts(5, 1, 0, unreadable=2), "1 of 5 calls failed, 2 unreadable"),
        (CallCounts(5, 0, 0), "no failed calls"),
        (CallCounts(0, 0, 0), "no calls"),
    ],
)
def test_failed_calls_stand_before_findings(pipe: Pipe, calls: CallCounts, told: str) -> None:
    live = StderrNotes(pipe.writer)
    live.summarize("s.jsonl", Tally(calls=calls))
    live.flush()
    frames = "0 frames from the client, 0 from the server"
    assert pipe.text() == f"mcpproxy: {frames}; {told}; no findings; trace s.jsonl\n"


def test_bodies_that_were_not_judged_are_told(pipe: Pipe) -> None:
    live = StderrNotes(pipe.writer)
    live.summarize("s.jsonl", Tally(undecoded=Counter({"it is coded": 2, "it is damaged": 1})))
    live.flush()
    assert "; no findings; 2 bodies were not judged: it is coded; a body was not judged: it is damaged;" in (
        pipe.text()
    )


def test_quiet_says_nothing() -> None:
    live = StderrNotes(None)
    live.say("anything")
    live.drain(1)


def test_what_peers_send_stays_on_its_line(pipe: Pipe) -> None:
    evil = replace(RETYPED, message="a\nb\x1b[2J\x9b\u2028\udcff ä")
    assert told(pipe, "text", evil)[0] == (
        "mcpproxy: error PROTO-007 server, frame 12: a\\nb\\u001b[2J\\u009b\\u2028\\udcff ä"
    )
    assert json.loads(told(pipe, "json", evil)[0])["message"] == evil.message


@pytest.mark.parametrize(
    ("lag_ns", "told"), [(5_951_000_000, "; judged up to 6.0 s late; "), (900_000_000, "")]
)
def test_a_noticeable_delay_of_judging_is_in_the_summary(pipe: Pipe, lag_ns: int, told: str) -> None:
    live = StderrNotes(pipe.writer)
    live.summarize("s.jsonl", Tally(), lag_ns=lag_ns)
    live.flush()
    (line,) = pipe.text().splitlines()
    assert (told or "no findings; trace s.jsonl") in line
    assert ("late" in line) == bool(told)


def test_the_recorder_does_not_wait_for_a_full_pipe(pipe: Pipe) -> None:
    live = StderrNotes(pipe.writer)
    for number in range(1000):
        live.say(f"{number:04d} " + "x" * 1000)
        live.flush()
    live.summarize("s.jsonl", TALLY)
    text = ""
    while not text.endswith("trace s.jsonl\n"):
        text += pipe.text()
        live.drain(0.01)
    lines = text.splitlines()
    numbers = [int(line.split()[1]) for line in lines[:-1]]
    assert numbers == list(range(len(numbers)))
    assert f"; {1000 - len(numbers)} lines not shown; trace" in lines[-1]


def test_the_last_notes_are_waited_for_up_to_a_limit(pipe: Pipe) -> None:
    live = StderrNotes(pipe.writer)
    live.say("x" * 200_000)
    live.drain(0.01)
    first = pipe.text()
    live.drain(0.01)
    assert len(first + pipe.text()) > len(first)


def test_a_pipe_that_nobody_reads_is_no_error(pipe: Pipe) -> None:
    live = StderrNotes(pipe.writer)
    os.close(pipe.reader)
    live.say("hello")
    live.flush()
    live.say("hello")
    live.drain(1)


def test_one_frame_is_no_plural(pipe: Pipe) -> None:
    live = StderrNotes(pipe.writer)
    live.summarize("s.jsonl", Tally(frames={"client": 1, "server": 0}))
    live.flush()
    assert pipe.text() == "mcpproxy: 1 frame from the client, 0 from the server; no findings; trace s.jsonl\n"
