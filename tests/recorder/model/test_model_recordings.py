"""Recordings of a model's interface: every byte is there, each once, and nothing of them is judged."""

import json
import tracemalloc
from pathlib import Path

import pytest

from mcpproxy.judge.ruleset import ruleset
from mcpproxy.judge.ruleset.selection import Selection
from mcpproxy.judge.session.frame import (
    CLIENT,
    SERVER,
    ExchangeEnd,
    Finding,
    Frame,
    Note,
    RequestHead,
    Sender,
    SseEvent,
)
from mcpproxy.read.judging import judge
from mcpproxy.read.opening import follow, open_trace
from mcpproxy.read.view.view import open_view
from mcpproxy.record.recorder.model.repeats import RepeatFinder
from mcpproxy.record.recorder.model.turns import TurnReader, model_turns
from mcpproxy.record.trace.reader import read_trace
from tests.recorder.http_journals import (
    SESSION_ID,
    answer,
    chunk,
    client,
    connect,
    get,
    post,
    server,
    start,
    stream,
)
from tests.recorder.journals import EXIT
from tests.recorder.model.conversations import KEY, bodies, journal_of, recorded, turns


@pytest.mark.parametrize(
    ("path", "name"),
    [("/v1/messages", "messages"), ("/v1/responses", "input"), ("/v1beta/m:generateContent", "contents")],
)
def test_every_reader_gives_back_every_byte(tmp_path: Path, path: str, name: str) -> None:
    asked = turns(6, path, name)
    trace = recorded(tmp_path, journal_of(asked))
    assert bodies(trace) == [body for _, body, _ in asked]
    assert bodies(trace, "server") == [reply for _, _, reply in asked]
    frames = [event for event in read_trace(str(trace)).events() if isinstance(event, Frame)]
    assert [event for event in follow(trace) if isinstance(event, Frame)] == frames
    with open_view(str(trace)) as view:
        assert [view.record(frame.seq) for frame in frames] == frames
        assert [view.raw(frame.seq) for frame in frames] == [frame.raw for frame in frames]


@pytest.mark.parametrize("odd", [b"\n", b'"\\ud800",', b"1e400,"])
def test_every_reader_gives_back_what_is_no_usual_json(tmp_path: Path, odd: bytes) -> None:
    asked = [(path, body[:-1] + b', "odd": [' + odd + b"7]}", reply) for path, body, reply in turns(4)]
    trace = recorded(tmp_path, journal_of(asked))
    assert trace.read_text().count('"again"') == 3
    frames = [event for event in read_trace(str(trace)).events() if isinstance(event, Frame)]
    assert [frame.raw for frame in frames] == [raw for _, *both in asked for raw in both]
    assert [event for event in follow(trace) if isinstance(event, Frame)] == frames
    with open_view(str(trace)) as view:
        assert [view.raw(frame.seq) for frame in frames] == [frame.raw for frame in frames]
        assert view.notes == ()


def test_what_is_repeated_is_recorded_once(tmp_path: Path) -> None:
    def size(count: int) -> int:
        (folder := tmp_path / str(count)).mkdir()
        return recorded(folder, journal_of(turns(count))).stat().st_size

    first, second, last = size(10), size(20), size(40)
    assert last - second < 2.1 * (second - first)  # with everything again: about 4 times
    lines = (tmp_path / "10" / "m.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines if '"again"' in line]
    assert len(records) == 9
    # The first message is too short to be left out.
    assert [len(record["message"]["messages"]) for record in records] == [3] + [2] * 8
    assert [record["message"]["tools"] for record in records] == [[]] * 9


def test_conversations_side_by_side(tmp_path: Path) -> None:
    one, other = turns(5), turns(5, "/v1/responses", "input")
    asked = [turn for pair in zip(one, other, strict=True) for turn in pair]
    trace = recorded(tmp_path, journal_of(asked))
    assert bodies(trace) == [body for _, body, _ in asked]
    assert trace.read_text().count('"again"') == 9  # the tools are those of the other conversation


def test_nothing_is_judged(tmp_path: Path) -> None:
    posts = f"/messages?session={SESSION_ID}"
    talk = [
        connect(1),
        client(get("/sse", "Accept: text/event-stream")),
        server(stream() + chunk(b"event: endpoint\ndata: %b\n\n" % posts.encode())),
        connect(2),
        client(post(b'{"jsonrpc":"2.0","id":null,"method":"tools/call"}', target=posts), 3, 2),
        server(answer(b"{}", status="202 Accepted"), 4, 2),
    ]

    def findings(folder: str, **members: str) -> tuple[int, int]:
        (tmp_path / folder).mkdir()
        trace = recorded(tmp_path / folder, [start(endpoint="", **members), *talk, EXIT])
        live = sum(isinstance(event, Finding) for event in open_trace(trace).events())
        rules = ruleset.load(())
        return live, len(
            judge(open_trace(trace), rules, Selection.of(rules.catalogue, None, (), ())).findings
        )

    assert all(findings("server"))
    assert findings("model", model="any", kept="everything") == (0, 0)


def test_the_key_of_a_request_is_nowhere(tmp_path: Path) -> None:
    path, body, reply = turns(1)[0]
    body = body.replace(b'"t0"', b'"%b"' % KEY.encode()).replace(b"go", KEY.encode())
    trace = recorded(
        tmp_path, journal_of([(f"{path}?key={KEY}", body, reply.replace(b"look", KEY.encode()))])
    )
    text = trace.read_text()
    assert KEY not in text
    (turn,) = model_turns(open_trace(trace))
    assert turn.answer is not None
    assert [call.arguments for call in turn.answer.calls] == [{"token": "t0", "code": "æ"}]


def test_an_unknown_dialect_is_told_and_recorded(tmp_path: Path) -> None:
    trace = recorded(tmp_path, journal_of([("/ask", b'{"prompt":"x"}', b'{"y":1}')] * 2))
    notes = [event for event in open_trace(trace).events() if isinstance(event, Note)]
    assert [note.why for note in notes if note.what == "unknown-dialect"] == [
        "POST /ask: not a dialect that is read; its bodies are recorded"
    ]
    assert bodies(trace) == [b'{"prompt":"x"}'] * 2


def test_what_is_told_of_a_request_has_no_credentials(tmp_path: Path) -> None:
    asked = [(f"http://user:{KEY}@127.0.0.1/ask;key={KEY}", b'{"prompt":"x"}', b"{}")]
    trace = recorded(tmp_path, journal_of(asked))
    assert "not a dialect that is read" in trace.read_text()
    assert KEY not in trace.read_text()


def test_the_header_says_what_is_kept(tmp_path: Path) -> None:
    trace = recorded(tmp_path, journal_of(turns(1), kept="tools", model="anthropic"))
    header = open_trace(trace).header
    assert (header.model, header.kept, header.redaction) == ("anthropic", "tools", "credentials")
    assert "Let me look." not in trace.read_text()


def test_a_named_dialect_is_read_at_any_path(tmp_path: Path) -> None:
    asked = turns(2, "/ask")
    trace = recorded(tmp_path, journal_of(asked, model="anthropic"))
    assert [turn.request.dialect for turn in model_turns(open_trace(trace))] == ["anthropic"] * 2
    other = tmp_path / "other"
    other.mkdir()
    unnamed = recorded(other, journal_of(asked))
    assert [turn.request.dialect for turn in model_turns(open_trace(unnamed))] == ["chat"] * 2


def test_uploads_that_do_not_end_are_not_held() -> None:
    reader = TurnReader("", 10_000)
    body, reply = b'{"model":"m","messages":[]}', b'{"content":[]}'

    def piece(exchange: int, sender: Sender, raw: bytes) -> Frame:
        return Frame(exchange, sender, raw, 0, exchange=exchange, connection=1)

    def asked(exchange: int) -> RequestHead:
        return RequestHead(0, exchange, 1, "POST", "/v1/messages", ())

    events: list[object] = [asked(1), piece(1, CLIENT, body), asked(2)]
    events += [piece(2, CLIENT, b"x" * 1000)] * 10
    events += [asked(3), piece(3, CLIENT, body), piece(3, SERVER, reply), ExchangeEnd(3, 1)]
    assert [turn.seq for event in events for turn in reader.take(event)] == [1, 3]
    assert list(reader.end()) == []
    assert reader.unread == 1


def test_a_long_stream_takes_as_much_memory_as_its_text() -> None:
    reader = TurnReader()
    events: list[object] = [
        RequestHead(0, 1, 1, "POST", "/v1/messages", ()),
        Frame(1, CLIENT, b'{"model":"m","messages":[]}', exchange=1),
    ]
    said = [
        b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%d "}}' % number
        for number in range(10_000)
    ]
    begin = b'{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}'
    tracemalloc.start()
    try:
        for event in events:
            assert not list(reader.take(event))
        for number, raw in enumerate((begin, *said), 2):
            frame = Frame(number, SERVER, bytes(bytearray(raw)), exchange=1, event=SseEvent(b"data: ", b""))
            assert not list(reader.take(frame))
        assert tracemalloc.get_traced_memory()[0] < 3 * sum(map(len, said))
    finally:
        tracemalloc.stop()
    (turn,) = reader.end()
    assert turn.answer is not None
    assert turn.answer.text == "".join(f"{number} " for number in range(10_000))


def test_a_stream_that_refuses_in_the_middle_is_no_answer() -> None:
    reader = TurnReader()
    list(reader.take(RequestHead(0, 1, 1, "POST", "/v1/messages", ())))
    list(reader.take(Frame(1, CLIENT, b'{"model":"m","messages":[]}', exchange=1)))
    refused = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
    for number, raw in enumerate((b'{"type":"message_start","message":{"model":"m"}}', refused), 2):
        list(reader.take(Frame(number, SERVER, raw, exchange=1, event=SseEvent(b"data: ", b"\n\n"))))
    (turn,) = reader.end()
    assert turn.answer is None
    assert turn.refusal is not None
    assert turn.refusal.message == "Overloaded"


def test_long_arrays_are_not_remembered() -> None:
    finder = RepeatFinder()
    tracemalloc.start()
    try:
        for seq in range(1, 5):
            raw = b'{"input":[%d%b]}' % (seq, b",1" * 20_000)
            finder.shortened(Frame(seq, CLIENT, raw, 0, exchange=seq, connection=1))
        assert tracemalloc.get_traced_memory()[0] < 2 << 20
    finally:
        tracemalloc.stop()
