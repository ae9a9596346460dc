"""The quick pass over a recording finds the same requests and answers as the reader of the trace does.

It is compared with ``Conversation``, which parses every frame, on all recordings that ship, on all fixtures
of the rules, and on sessions made of messages of every kind.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mcpproxy.judge.session.call_counter import CallCounter
from mcpproxy.judge.session.frame import (
    Close,
    Event,
    ExchangeEnd,
    FaultMark,
    Finding,
    Frame,
    RequestHead,
    ResponseHead,
    Sender,
    SseEvent,
)
from mcpproxy.judge.session.outcomes import Kind, Outcome
from mcpproxy.read.view.summaries import call_outcomes
from mcpproxy.read.view.view import View, open_view
from mcpproxy.record.trace.conversation import Conversation
from mcpproxy.record.trace.encode import encode, encode_close, encode_header
from mcpproxy.record.trace.reader import read_trace
from mcpproxy.record.trace.records import Header, Tally
from mcpproxy.record.trace.session_labels import SessionNames
from tests.rules import runner
from tests.trace.events import events as any_event
from tests.trace.events import senders

RECORDINGS: Final = sorted((Path(__file__).parents[2] / "recordings").glob("*.jsonl"))


def expected(events: Iterable[object]) -> tuple[list[tuple[int, str, str]], set[tuple[int, int]]]:
    """Return frame, sender and method of each request, and the frames of each answer and its request."""
    conversation = Conversation()
    requests: list[tuple[int, str, str]] = []
    answers: set[tuple[int, int]] = set()
    for event in events:
        conversation.track_session(event)
        if isinstance(event, Frame) and not event.continues:
            for turn in conversation.turns(event):
                if turn.kind == "request":
                    requests.append((event.seq, event.sender, turn.method or ""))
                if turn.answers is not None and not event.is_undelivered:
                    answers.add((turn.answers, event.seq))
    return requests, answers


def counted(events: Iterable[object]) -> dict[Outcome, int]:
    """Return how many calls a recorder counts of each outcome while the events pass."""
    counter, names = CallCounter(), SessionNames()
    for event in events:
        counter.count_event(event, names.track(event))
    assert counter.counts is not None
    return counter.outcomes


def check(view: View) -> None:
    """Compare a view with what the reader finds in the same file."""
    events = list(read_trace(view.path).events())
    requests, answers = expected(events)
    rows = view.calls("kind:request", limit=100_000)
    assert [(call.frame, call.sender, view.index.reader.name(call.number)[0]) for call in rows] == requests
    assert answers <= {(call.frame, call.answer) for call in rows}
    for event in events:
        if isinstance(event, Frame | RequestHead | ResponseHead):
            assert view.record(event.seq) == event
    assert counted(events) == call_outcomes(view.columns)
    assert view.frames == sum(isinstance(event, Frame) for event in events)
    assert len(view.findings.with_texts()) == sum(isinstance(event, Finding) for event in events)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_a_recording_that_ships(path: Path) -> None:
    with open_view(path) as view:
        check(view)
        assert not view.notes


def write(path: Path, events: Iterable[Event]) -> None:
    """Write a trace, with the names of sessions as the recorder writes them."""
    kept = list(events)
    over_http = any(isinstance(event, RequestHead) for event in kept)
    names = SessionNames()
    lines = [encode_header(Header(transport="http" if over_http else "stdio"))]
    for event in kept:
        if isinstance(event, Close):
            lines.append(encode_close(event, Tally()))
        else:
            lines.append(encode(event, names.track(event)))
    path.write_bytes(b"".join(lines))


@pytest.mark.parametrize("rule", sorted({fixture.rule for fixture in runner.fixtures()}))
def test_the_fixtures_of_a_rule(rule: str, tmp_path: Path) -> None:
    for number, fixture in enumerate(each for each in runner.fixtures() if each.rule == rule):
        path = tmp_path / f"{number}.jsonl"
        steps = runner.steps(fixture, fixture.revisions[0])
        write(path, [event for step in steps for event in step.events])
        with open_view(path) as view:
            check(view)
            searched = [view.parts(number) for number in view.numbers()]
            view.sort_parts()
            assert [view.parts(number) for number in view.numbers()] == searched


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=st.lists(any_event, max_size=30))
def test_anything_that_a_trace_can_hold_is_read(events: list[Event], tmp_path: Path) -> None:
    path = tmp_path / "any.jsonl"
    write(path, events)
    with open_view(path) as view:
        for call in view.calls(limit=1000):
            assert call.kind in Kind
            assert view.parts(call.number).call == call
        searched = [view.parts(call.number) for call in view.calls(limit=1000)]
        view.sort_parts()
        assert [view.parts(call.number) for call in view.calls(limit=1000)] == searched
        assert counted(events) == call_outcomes(view.columns)
    assert view.frames == sum(isinstance(event, Frame) for event in events)


SAID: Final = [
    b'{"jsonrpc":"2.0","id":1,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"result":{}}',
    b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}',
    b'{"jsonrpc":"2.0","method":"notifications/message"}',
]
met = st.builds(FaultMark, st.just("r"), st.sampled_from(["error", "pause", "delay"]), st.integers(1, 2))
frames = st.builds(
    Frame, st.just(0), senders, st.sampled_from(SAID), by_proxy=st.booleans(), fault=st.none() | met
)


PING, CANCEL, FIRST = SAID[0], SAID[3], FaultMark("r", "error", 1)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(talk=st.lists(frames, max_size=8))
@example(talk=[Frame(0, "server", PING, fault=FIRST), Frame(0, "client", CANCEL, fault=FIRST),
          Frame(0, "client", PING, by_proxy=True, fault=FIRST)])  # fmt: skip
def test_calls_that_met_faults_are_counted_alike(talk: list[Frame], tmp_path: Path) -> None:
    for number, frame in enumerate(talk, start=1):
        frame.seq = frame.observed_at_ns = number
    write(tmp_path / "faults.jsonl", talk)
    with open_view(tmp_path / "faults.jsonl") as view:
        assert counted(talk) == call_outcomes(view.columns)


SAID_OVER_HTTP: Final = [
    *SAID[:4],
    b'{"jsonrpc":"2.0","id":2,"method":"initialize"}',
    b'{"jsonrpc":"2.0","id":1,"method":"server/discover","params":'
    b'{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}',
    b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}',
    b'{"jsonrpc":"2.0","error":{"code":-32603,"message":"no"}}',
    b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]',
    b"no message",
]
PIECES: Final = [b'{"id":1,"result":{"a":"', b'aaaa"}}']
HEADERS: Final = [(("location", "/moved"),), (("mcp-session-id", "a"),)]


@st.composite
def over_http(draw: st.DrawFn) -> list[Event]:
    """Draw the events of up to three exchanges. They overlap, and each takes its course."""
    exchanges = [
        list(reversed(draw(an_exchange(number)))) for number in range(1, draw(st.integers(1, 3)) + 1)
    ]
    talk: list[Event] = []
    while open_ones := [events for events in exchanges if events]:
        event = draw(st.sampled_from(open_ones)).pop()
        number = len(talk) + 1
        has_number = not isinstance(event, ExchangeEnd)
        talk.append(replace(event, observed_at_ns=number, **({"seq": number} if has_number else {})))
    return talk


@st.composite
def an_exchange(draw: st.DrawFn, number: int) -> list[Any]:
    """Draw one exchange, whose response may come before the body of its request."""
    method, target = draw(st.sampled_from(["POST", "POST", "GET"])), draw(st.sampled_from(["/mcp", "/moved"]))
    status, headers = draw(st.sampled_from([200, 307, 400, 502])), draw(st.sampled_from(HEADERS))
    head = RequestHead(0, number, 1, method, target, (), draw(st.booleans()))
    body = draw(st.lists(said_in(number, "client"), max_size=2))
    response = ResponseHead(0, number, 1, status, headers, by_proxy=draw(st.booleans()))
    early = [response] if draw(st.booleans()) else []
    said = draw(st.lists(senders.flatmap(lambda sender: said_in(number, sender)), max_size=3))
    end = ExchangeEnd(number, 1, draw(st.booleans()), draw(st.sampled_from(["client", "server"])))
    return [head, *early, *body, *([] if early else [response]), *said, end]


def said_in(number: int, sender: Sender) -> st.SearchStrategy[Frame]:
    """Return a strategy for what ``sender`` says in an exchange."""
    said, at, by = st.sampled_from(SAID_OVER_HTTP), st.just(number), st.just(sender)
    event = st.none() | st.just(SseEvent(b"", b""))
    return st.one_of(
        st.builds(Frame, st.just(0), by, said, exchange=at),
        st.builds(Frame, st.just(0), by, said, exchange=at, by_proxy=st.booleans(), fault=st.none() | met),
        st.builds(
            Frame,
            st.just(0),
            by,
            st.sampled_from(PIECES),
            terminated=st.booleans(),
            continues=st.booleans(),
            exchange=at,
            event=event,
        ),
    )


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(talk=over_http())
def test_calls_over_http_are_counted_alike(talk: list[Event], tmp_path: Path) -> None:
    write(tmp_path / "http.jsonl", talk)
    with open_view(tmp_path / "http.jsonl") as view:
        assert counted(talk) == call_outcomes(view.columns)
