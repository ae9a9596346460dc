"""The twelve situations as rows: what a reader sees at a glance, and what belongs to a call."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpproxy.judge.session.call_counter import CallCounter
from mcpproxy.judge.session.outcomes import Outcome
from mcpproxy.read.view.calls import Call, Role
from mcpproxy.read.view.summaries import call_outcomes
from mcpproxy.read.view.view import View, open_view
from mcpproxy.record.trace.reader import read_trace
from mcpproxy.record.trace.session_labels import SessionNames
from tests.view.situations import SITUATIONS, write

MS = 1_000_000


@pytest.fixture
def view(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[View]:
    with open_view(write(tmp_path / "session.jsonl", SITUATIONS[request.param])) as view:
        yield view


def seen(call: Call) -> tuple[str, str | None, str, float | None]:
    """What the row of a call says first: method, target, outcome, and how long it took or waited, in ms."""
    took = call.waited_ns if call.latency_ns is None else call.latency_ns
    return call.method or str(call.kind), call.target, str(call.outcome), None if took is None else took / MS


ROWS = {
    "failed tool": [("tools/call", "forecast", "tool-error", 12)],
    "hanging call": [("tools/call", "forecast", "unanswered", 5100)],
    "cancelled call": [("tools/call", "forecast", "cancelled", 800), ("ping", None, "ok", 1)],
    "slow call": [("tools/call", "archive", "ok", 4200), ("tools/call", "forecast", "ok", 12)],
    "wrong id": [("tools/call", "forecast", "unanswered", 4900), ("answer", None, "none", None)],
    "server request in a call": [
        ("tools/call", "forecast", "ok", 2050),
        ("elicitation/create", None, "ok", 2000),
    ],
    "progress": [("tools/call", "forecast", "ok", 250), ("tools/call", "forecast", "ok", 215)],
    "7 kB result": [("tools/call", "archive", "ok", 30)],
    "two sessions": [("tools/call", "forecast", "ok", 32)],
    "HTTP with SSE": [],
    "server crash": [("tools/call", "forecast", "unanswered", 10)],
    "finding": [("tools/call", "forecast", "ok", 12), ("not a message", None, "none", None)],
}
"""The rows after the first three, which on stdio are the handshake and the listing of the tools."""


@pytest.mark.parametrize(("view", "rows"), ROWS.items(), ids=ROWS, indirect=["view"])
def test_each_situation_has_the_rows_that_a_reader_expects(view: View, rows: list[object]) -> None:
    assert [seen(call) for call in view.calls(start=3)] == rows
    assert not view.notes


@pytest.mark.parametrize("view", SITUATIONS, indirect=True)
def test_a_recorder_counts_the_same_outcomes(view: View) -> None:
    counter, names = CallCounter(), SessionNames()
    for event in read_trace(view.path).events():
        counter.count_event(event, names.track(event))
    assert counter.outcomes == call_outcomes(view.columns)


@pytest.mark.parametrize("view", SITUATIONS, indirect=True)
def test_the_outcomes_are_those_that_filters_find(view: View) -> None:
    outcomes = call_outcomes(view.columns)
    assert outcomes.total() == view.count("kind:request")
    for outcome in Outcome:
        assert outcomes[outcome] == view.count(f"kind:request status:{outcome}")


BELONGS = {
    ("cancelled call", 4): [(Role.REQUEST, 6), (Role.CANCEL, 7)],
    ("server request in a call", 4): [
        (Role.REQUEST, 6),
        (Role.INNER_REQUEST, 7),
        (Role.INNER_ANSWER, 8),
        (Role.ANSWER, 9),
    ],
    ("progress", 4): [
        (Role.REQUEST, 6),
        (Role.PROGRESS, 8),
        (Role.PROGRESS, 9),
        (Role.LOG, 11),
        (Role.ANSWER, 12),
    ],
    ("progress", 5): [(Role.REQUEST, 7), (Role.ANSWER, 10)],
    ("two sessions", 3): [
        (Role.HTTP_REQUEST, 9),
        (Role.REQUEST, 10),
        (Role.HTTP_RESPONSE, 15),
        (Role.ANSWER, 16),
        (Role.HTTP_END, None),
    ],
    ("HTTP with SSE", 2): [
        (Role.HTTP_REQUEST, 5),
        (Role.REQUEST, 6),
        (Role.HTTP_RESPONSE, 7),
        (Role.PROGRESS, 8),
        (Role.PROGRESS, 9),
        (Role.ANSWER, 10),
        (Role.HTTP_END, None),
    ],
    ("server crash", 4): [(Role.REQUEST, 6), (Role.LOG, None)],
}


@pytest.mark.parametrize(("situation", "row"), BELONGS, ids=map(str, BELONGS))
def test_what_belongs_to_a_call_is_shown_with_it(situation: str, row: int, tmp_path: Path) -> None:
    with open_view(write(tmp_path / "session.jsonl", SITUATIONS[situation])) as view:
        parts = view.parts(row).parts
        assert [(part.role, part.seq) for part in parts] == BELONGS[situation, row]
        assert all(part.summary or part.role is Role.MESSAGE for part in parts)


@pytest.mark.parametrize("view", ["progress"], indirect=True)
def test_the_frames_of_the_rows_that_pass_a_filter(view: View) -> None:
    assert view.frames_of("call:4") == [6, 8, 9, 11, 12]
    assert view.frames_of('"fog",desk') == [1, 2, 7, 10]
    assert view.frames_of("") == list(range(1, 13))


@pytest.mark.parametrize("view", ["two sessions"], indirect=True)
def test_two_sessions_with_equal_ids_are_kept_apart(view: View) -> None:
    names = [(session.name, session.client, session.server, session.rows) for session in view.sessions]
    assert names == [("1a2b3c4d", "desk", "weather", 2), ("5e6f7a8b", "phone", "weather", 2)]
    assert [(call.arguments, call.result) for call in view.calls("session:1a2b method:tools/call")] == [
        ('{"city":"Oslo"}', "Oslo: fog")
    ]
    assert view.count("session:5e6f7a8b") == 2


@pytest.mark.parametrize("view", ["HTTP with SSE"], indirect=True)
def test_a_response_says_whether_it_is_a_stream_of_events(view: View) -> None:
    heads = [part for row in (2, 3) for part in view.parts(row).parts if part.role is Role.HTTP_RESPONSE]
    assert {head.summary for head in heads} == {"200, event stream", "405"}


@pytest.mark.parametrize("view", ["HTTP with SSE"], indirect=True)
def test_an_exchange_without_a_message_is_a_row(view: View) -> None:
    assert [seen(call) for call in view.calls("kind:http")] == [("GET /mcp", None, "declined", 2)]
    (call,) = view.calls("status:declined")
    assert (call.error_code, call.frame, call.answer, call.result) == (405, 11, 12, "405")


@pytest.mark.parametrize("view", ["finding"], indirect=True)
def test_a_finding_is_counted_at_the_row_of_its_frame_and_says_what_its_rule_says(view: View) -> None:
    found = {call.number: (call.findings, call.severity) for call in view.calls("rule:*")}
    assert found == {4: (1, "warning"), 5: (1, "error")}
    (noise,) = view.parts(5).findings
    assert noise.name
    assert noise.sentence or noise.summary
    assert noise.instead
    assert noise.link.startswith("https://")
    assert [(group.rule, group.count, group.rows) for group in view.findings.by_rule()] == [
        ("STDIO-002", 1, (5,)),
        ("RES-004", 1, (4,)),
    ]


@pytest.mark.parametrize("view", ["7 kB result"], indirect=True)
def test_a_large_result_is_a_line_in_the_row_and_whole_in_its_frame(view: View) -> None:
    call = view.call(4)
    assert call.answer_bytes > 6_900
    assert call.result.startswith("station 0\\n00:00 wind 0 m/s")
    assert len(call.result) == 240
    assert len(view.raw(call.answer or 0)) == call.answer_bytes


@pytest.mark.parametrize("view", ["failed tool"], indirect=True)
def test_the_tools_are_listed_with_their_definitions_and_calls(view: View) -> None:
    forecast, archive = view.tools.all()
    assert (forecast.name, forecast.calls, forecast.frame, forecast.listed) == ("forecast", 1, 5, True)
    assert (archive.name, archive.calls) == ("archive", 0)
    assert forecast.size > 100
