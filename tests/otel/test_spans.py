"""Calls as spans: names, times, parents, endings, events and links, as a collector decodes them."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from mcpproxy.judge.session.frame import NOT_DECODED
from mcpproxy.read.view.view import open_view
from mcpproxy.send.otel import attributes
from mcpproxy.send.otel.span_file import protobuf_pieces
from mcpproxy.send.otel.span_reader import SpanReader
from mcpproxy.send.otel.texts import Texts
from tests.otel.decoding import Span, decoded, exported
from tests.otel.sessions import AROUND, CALLER, SESSIONS, TRACE, late_finding
from tests.otel.table import CONVENTIONS, GOLDEN, NAMES, table, trace_of
from tests.view.situations import C, Conversation, begun, forecast, text, write

SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"  # made up, in the format of a token
WALL_NS = 1_795_256_430_123_456_000
"""When the made-up sessions began."""


@pytest.mark.parametrize("name", NAMES)
def test_the_spans_are_those_of_the_table(name: str, tmp_path: Path) -> None:
    section = table(name, tmp_path)
    assert section in GOLDEN.read_text(encoding="utf-8")


def spans_of(records: tuple[str, ...], folder: Path, *options: str) -> list[Span]:
    return exported(write(folder / "s.jsonl", records), folder / "s.otlp", *options)


def test_times_are_those_of_the_wire(tmp_path: Path) -> None:
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    session.answers(2, text("Oslo: sunny"), ms=112.5)
    call = spans_of(session.closes(ms=200), tmp_path)[2]
    assert call.started_ns == WALL_NS + 100_000_000
    assert call.ended_ns == WALL_NS + 112_500_000


def test_a_call_whose_answer_could_not_be_read_is_unreadable_and_no_error(tmp_path: Path) -> None:
    session = Conversation(http=True)
    session.posts(1, ms=1)
    session.asks(1, "tools/list", ms=1, exchange=1)
    session.responds(1, 200, ms=2, content_encoding="br")
    undone = {"connection": 1, "what": NOT_DECODED, "why": "the content coding br cannot be undone here"}
    session.record("note", 3, undone | {"exchange": 1})
    session.ends(1, ms=4)
    call, _ = spans_of(session.closes(ms=60_000), tmp_path)
    assert (call.said["mcpproxy.outcome"], call.error, "error.type" in call.said) == (
        "unreadable",
        False,
        False,
    )
    assert call.ended_ns == WALL_NS + 4_000_000


def test_a_call_continues_the_trace_of_its_caller(tmp_path: Path) -> None:
    spans = spans_of(SESSIONS["traced"], tmp_path)
    call = next(span for span in spans if span.trace_id == TRACE and span.name == "tools/call forecast")
    assert (call.parent, call.kind, call.state, call.has_remote_parent) == (CALLER, "INTERNAL", "a=1", True)
    asked = next(span for span in spans if span.name == "roots/list")
    assert (asked.trace_id, asked.parent, asked.has_remote_parent) == (TRACE, call.id, False)


def test_a_call_that_is_not_sampled_has_no_span_and_nonsense_is_no_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spans = spans_of(SESSIONS["traced"], tmp_path)
    asked = [span.said["jsonrpc.request.id"] for span in spans if span.name == "tools/call forecast"]
    assert asked == ["2", "4"]
    session = spans[-1]
    assert (spans[-2].trace_id, spans[-2].parent) == (session.trace_id, session.id)
    assert "6 spans, 1 left out (not sampled by their callers)" in capsys.readouterr().err


def test_the_trace_of_an_http_request_is_a_link(tmp_path: Path) -> None:
    spans = spans_of(SESSIONS["HTTP trouble"], tmp_path)
    assert [span.links for span in spans if span.links] == [(("http", AROUND.split("-")[2]),)]


def test_ids_are_the_same_each_time_and_differ_between_recordings(tmp_path: Path) -> None:
    records = SESSIONS["task"]
    once = spans_of(records, tmp_path)
    again = exported(write(tmp_path / "copy.jsonl", records), tmp_path / "again.otlp")
    assert [span.encoded for span in once] == [span.encoded for span in again]
    assert len({span.id for span in once}) == len(once)
    other = (records[0].replace('"pid":77', '"pid":78'), *records[1:])
    ids = {span.id for span in exported(write(tmp_path / "o.jsonl", other), tmp_path / "o.otlp")}
    assert ids.isdisjoint(span.id for span in once)


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_that_is_read_line_by_line_gives_the_same_spans(name: str, tmp_path: Path) -> None:
    trace = trace_of(name, tmp_path)
    with open_view(trace) as view:
        whole, slow = SpanReader(view), SpanReader(view)

        def steps() -> Iterator[bytes]:
            while slow.next_line < view.columns.lines:
                yield from protobuf_pieces([span] for span in slow.read(1))
            yield from protobuf_pieces([span] for span in slow.finish())

        pieces = protobuf_pieces([span] for span in chain(whole.read(), whole.finish()))
        assert list(steps()) == list(pieces)


def test_spans_that_were_made_are_not_made_again_after_a_restart(tmp_path: Path) -> None:
    with open_view(trace_of("two sessions", tmp_path)) as view:
        reader = SpanReader(view)
        first = list(reader.read(12))
        assert first
        reader.restart()
        rest = [*reader.read(), *reader.finish()]
        whole = SpanReader(view)
        expected = [span.context for span in chain(whole.read(), whole.finish())]
        assert [span.context for span in [*first, *rest]] == expected


def test_a_finding_that_comes_late_is_an_event_of_the_session(tmp_path: Path) -> None:
    spans = spans_of(late_finding(), tmp_path)
    assert [(span.name, span.found()) for span in spans if span.found()] == [
        ("tools/call forecast", ["RES-004"]),
        ("mcp.session", ["RPC-005"]),
    ]


def test_a_span_has_a_limited_number_of_events(tmp_path: Path) -> None:
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo", progressToken="p"), ms=100)
    for step in range(200):
        session.notifies("notifications/progress", {"progressToken": "p", "progress": step}, ms=101 + step)
    session.answers(2, text("Oslo: sunny"), ms=400)
    call = spans_of(session.closes(ms=500), tmp_path)[2]
    assert [event.said["mcpproxy.progress"] for event in call.events] == list(range(72, 200))


# Content


def private() -> tuple[str, ...]:
    session = begun()
    session.asks(2, "tools/call", {"name": "forecast", "arguments": {"city": "Oslo", "key": SECRET}}, ms=100)
    session.answers(2, text("Oslo: sunny"), ms=112)
    session.fails(3, -32000, f"cannot log in with {SECRET}", ms=120)
    session.asks(4, "prompts/get", {"name": "letter", "arguments": {"to": "Eva"}}, ms=130)
    session.fails(4, -32000, f"cannot log in with {SECRET}", ms=140)
    return session.closes(ms=200)


def test_no_content_unless_it_is_asked_for(tmp_path: Path) -> None:
    content = write(tmp_path / "s.jsonl", private())
    assert exported(content, tmp_path / "a.otlp")
    sent = (tmp_path / "a.otlp").read_bytes()
    assert not any(word in sent for word in (b"Oslo", b"Eva", SECRET.encode()))


def test_content_and_what_is_masked_in_it(tmp_path: Path) -> None:
    *_, call, prompt, _session = spans_of(private(), tmp_path, "--content")
    assert call.said["gen_ai.tool.call.arguments"] == '{"city":"Oslo","key":"[masked]"}'
    assert call.said["gen_ai.tool.call.result"] == '{"content":[{"type":"text","text":"Oslo: sunny"}]}'
    assert prompt.said["gen_ai.prompt.variable.to"] == "Eva"
    assert prompt.why == "cannot log in with [masked]"
    kept = exported(str(tmp_path / "s.jsonl"), tmp_path / "k.otlp", "--content", "--keep-secrets")
    assert SECRET in kept[-3].said["gen_ai.tool.call.arguments"]


def test_long_content_is_cut(tmp_path: Path) -> None:
    session = begun()
    session.asks(2, "tools/call", {"name": "forecast", "arguments": {"city": "O" * 20_000}}, ms=100)
    session.answers(2, text("Oslo: sunny"), ms=112)
    call = spans_of(session.closes(ms=200), tmp_path, "--content")[2]
    assert len(call.said["gen_ai.tool.call.arguments"]) == 8192
    assert call.said["gen_ai.tool.call.arguments"].endswith("OO…")


@pytest.mark.parametrize("masks", [True, False])
def test_a_text_that_is_cut_says_so(masks: bool) -> None:
    short = Texts(masks=masks).short
    assert short("a" * 10, 10) == "a" * 10
    assert short("a" * 11, 10) == short("a" * 1000, 10) == "a" * 9 + "…"


def test_a_text_is_masked_before_it_is_cut() -> None:
    short = Texts(masks=True).short
    assert short(f"{SECRET} " * 50, 450) == "[masked] " * 50
    assert short(f"{SECRET} " * 50, 449) == "[masked] " * 49 + "[masked…"


def test_a_secret_that_a_mask_brings_into_view_is_masked_too() -> None:
    jwt = f"eyJhbGciOiJIUzI1NiJ9.{'a' * 350}.b"
    assert Texts(masks=True).short(f"{jwt} {SECRET} {'z' * 200}", 100).startswith("[masked] [masked] z")


def test_hostile_names_do_not_break_the_encoding(tmp_path: Path) -> None:
    session = begun()
    session.asks(2, "tools/call", {"name": "\u202ea"}, ms=100)
    session.asks(3, "x\u0000y", ms=100, by=C)
    spans = spans_of(session.closes(ms=200), tmp_path)
    assert [span.name for span in spans[2:4]] == ["tools/call \\u202ea", "x\\u0000y"]


# Names


def test_the_conventions_are_those_of_the_schema() -> None:
    assert CONVENTIONS["schema_url"] == attributes.SCHEMA_URL


@pytest.mark.parametrize("name", NAMES)
def test_every_attribute_is_one_of_the_conventions_or_ours(name: str, tmp_path: Path) -> None:
    row = CONVENTIONS["span"]["mcp.client"]
    known = {*row["required"], *row["allowed"], *CONVENTIONS["core"]["allowed"]}
    beginnings = ("mcpproxy.", *(name for name in known if name.endswith(".")))
    for span in exported(trace_of(name, tmp_path), tmp_path / "s.otlp", "--content"):
        names = {*span.said, *(name for event in span.events for name in event.said)}
        assert {name for name in names - known if not name.startswith(beginnings)} == set()
        assert span.schema_url == CONVENTIONS["schema_url"]
        if "mcp.method.name" in span.said:
            assert set(row["required"]) <= span.said.keys()
            assert span.kind in (row["kind"], "INTERNAL")
            is_tool = span.said["mcp.method.name"] == "tools/call"
            assert (span.said.get("gen_ai.operation.name") == "execute_tool") == is_tool


def test_the_resource_is_the_server_unless_the_environment_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = write(tmp_path / "s.jsonl", SESSIONS["task"])
    assert exported(trace, tmp_path / "a.otlp")[0].resource["service.name"] == "weather"
    monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    named = exported(trace, tmp_path / "b.otlp")[0].resource
    assert (named["service.name"], named["deployment.environment.name"]) == ("mine", "test")


def test_pieces_of_a_file_are_one_request() -> None:
    with open_view(trace_of("everything-2025-11-25", Path())) as view:
        reader = SpanReader(view)
        spans = [*reader.read(), *reader.finish()]
    pieces = b"".join(protobuf_pieces([[span] for span in spans]))
    assert [span.encoded for span in decoded(pieces)] == [
        span.encoded for span in decoded(b"".join(protobuf_pieces([spans])))
    ]
