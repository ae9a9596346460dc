"""Records: their exact form, reading them again, and what is refused."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcpproxy.judge.session.frame import (
    Close,
    Eof,
    Event,
    ExchangeEnd,
    Finding,
    Frame,
    Gap,
    Note,
    Opaque,
    RequestHead,
    ResponseHead,
    Signal,
    SseEvent,
    Stderr,
)
from mcpproxy.judge.session.outcomes import CallCounts
from mcpproxy.protocol.jsonrpc import Flaw, Malformed, parse
from mcpproxy.record.trace.decode import decode, header_format
from mcpproxy.record.trace.encode import (
    encode,
    encode_close,
    encode_finding,
    encode_frame,
    encode_header,
    frame_parts,
    is_embeddable,
)
from mcpproxy.record.trace.members import NotARecordError
from mcpproxy.record.trace.records import CloseRecord, Encoded, Header, Recorded, Tally
from tests.trace import events as some
from tests.trace.bodies import body_bytes

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'

EVENTS: dict[str, tuple[Recorded, bytes]] = {
    "JSON stands as it came": (
        Frame(1, "client", b' {"a" : 1.0,"a":2}\r', 1234),
        b'{"type":"frame","seq":1,"t":1234,"from":"client","message": {"a" : 1.0,"a":2}\r}',
    ),
    "text is a string": (
        Frame(2, "server", b'say "hi"', 5),
        b'{"type":"frame","seq":2,"t":5,"from":"server","text":"say \\"hi\\""}',
    ),
    "bytes are base64": (
        Frame(3, "server", b"\xff", 5),
        b'{"type":"frame","seq":3,"t":5,"from":"server","base64":"/w=="}',
    ),
    "a blank line": (Frame(4, "client", b"", 5), b'{"type":"frame","seq":4,"t":5,"from":"client","text":""}'),
    "a last line without its line feed": (
        Frame(5, "client", b"[]", 5, terminated=False),
        b'{"type":"frame","seq":5,"t":5,"from":"client","eol":"","message":[]}',
    ),
    "a piece of a line": (
        Frame(6, "client", b"[", 5, terminated=False, continues=True),
        b'{"type":"frame","seq":6,"t":5,"from":"client","eol":"","continues":true,"text":"["}',
    ),
    "JSON over two lines is text": (
        Frame(7, "client", b"[\n]", 5),
        b'{"type":"frame","seq":7,"t":5,"from":"client","text":"[\\n]"}',
    ),
    "stderr": (Stderr(b"log", 7), b'{"type":"stderr","t":7,"text":"log"}'),
    "stderr without line feed": (Stderr(b"log", 7, False), b'{"type":"stderr","t":7,"eol":"","text":"log"}'),
    "stderr in bytes": (Stderr(b"\xff", 7), b'{"type":"stderr","t":7,"base64":"/w=="}'),
    "end of a stream": (Eof("client", 8), b'{"type":"eof","t":8,"from":"client"}'),
    "a signal": (Signal("SIGTERM", 9), b'{"type":"signal","t":9,"signal":"SIGTERM"}'),
    "a gap": (
        Gap("full", 1, 2, 3, 4),
        b'{"type":"gap","t":4,"reason":"full","client":1,"server":2,"stderr":3}',
    ),
    "a request": (
        RequestHead(
            1, 2, 3, "POST", "/mcp?x", (("Host", "h"), ("x-\xfc", "a"), ("Host", "h")), True, "1.1", 4
        ),
        '{"type":"request","seq":1,"t":4,"exchange":2,"connection":3,"method":"POST","target":"/mcp?x",'
        '"version":"1.1","headers":[["Host","h"],["x-\xfc","a"],["Host","h"]],"endpoint":true}'.encode(),
    ),
    "a response": (
        ResponseHead(5, 2, 3, 200, (), "OK", "1.0", False, 6),
        b'{"type":"response","seq":5,"t":6,"exchange":2,"connection":3,"status":200,"reason":"OK",'
        b'"version":"1.0","headers":[]}',
    ),
    "a response of our own": (
        ResponseHead(5, 2, 3, 502, (), "", "1.1", True, 6),
        b'{"type":"response","seq":5,"t":6,"exchange":2,"connection":3,"status":502,"reason":"",'
        b'"version":"1.1","headers":[],"by":"proxy"}',
    ),
    "a body": (
        Frame(7, "server", b"{}", 8, exchange=2, connection=3),
        b'{"type":"frame","seq":7,"t":8,"from":"server","exchange":2,"connection":3,"message":{}}',
    ),
    "a body of our own, cut short": (
        Frame(7, "server", b"{", 8, False, False, 2, 3, None, True),
        b'{"type":"frame","seq":7,"t":8,"from":"server","exchange":2,"connection":3,"by":"proxy","eol":"","text":"{"}',
    ),
    "an SSE event": (
        Frame(
            7,
            "server",
            b"{}",
            8,
            exchange=2,
            connection=3,
            event=SseEvent(b"id: 1\ndata:", b"\n\n", "1", None, 5),
        ),
        b'{"type":"frame","seq":7,"t":8,"from":"server","exchange":2,"connection":3,"event":{"id":"1","name":null,'
        b'"retry":5,"before":"id: 1\\ndata:","after":"\\n\\n"},"message":{}}',
    ),
    "an SSE event on several lines, not all of it UTF-8": (
        Frame(
            7,
            "server",
            b"a\nb",
            8,
            exchange=2,
            connection=3,
            event=SseEvent(b"\xff", None, name='"message":'),
        ),
        b'{"type":"frame","seq":7,"t":8,"from":"server","exchange":2,"connection":3,"event":{"id":null,'
        b'"name":"\\"message\\":","retry":null,"before":{"base64":"/w=="},"after":null},"text":"a\\nb"}',
    ),
    "encoded bytes": (
        Encoded(2, 3, "server", b"\xff", 9),
        b'{"type":"encoded","t":9,"exchange":2,"connection":3,"from":"server","base64":"/w=="}',
    ),
    "the end of an exchange": (
        ExchangeEnd(2, 3, observed_at_ns=9),
        b'{"type":"end","t":9,"exchange":2,"connection":3,"cut":false}',
    ),
    "an exchange that was cut": (
        ExchangeEnd(2, 3, True, "client", 9),
        b'{"type":"end","t":9,"exchange":2,"connection":3,"cut":true,"by":"client"}',
    ),
    "an exchange whose client left before it was cut": (
        ExchangeEnd(2, 3, True, "client", 9, 7),
        b'{"type":"end","t":9,"exchange":2,"connection":3,"cut":true,"by":"client","left":7}',
    ),
    "bytes that are no HTTP": (
        Opaque(3, "client", 517, "an upgrade", 9),
        b'{"type":"opaque","t":9,"connection":3,"from":"client","bytes":517,"reason":"an upgrade"}',
    ),
    "bytes of mcpproxy that are no HTTP": (
        Opaque(3, "server", 206, "no HTTP", 9, by_proxy=True),
        b'{"type":"opaque","t":9,"connection":3,"from":"server","bytes":206,"reason":"no HTTP","by":"proxy"}',
    ),
    "what mcpproxy did": (
        Note(3, "refused", "a foreign origin", 9),
        b'{"type":"note","t":9,"connection":3,"what":"refused","why":"a foreign origin"}',
    ),
}


@pytest.mark.parametrize(("event", "line"), EVENTS.values(), ids=EVENTS)
def test_an_event_looks_like_this(event: Recorded, line: bytes) -> None:
    assert encode(event) == line + b"\n"
    assert decode(line) == event


def test_a_header_looks_like_this() -> None:
    header = Header(1, "0.1.0", "stdio", ("srv", "-v"), "srv", "/tmp", 7, "2026-11-21T10:20:30.123456Z", 99)
    assert encode_header(header) == (
        b'{"type":"header","format":1,"mcpproxy":"0.1.0","transport":"stdio","command":["srv","-v"],"label":"srv",'
        b'"cwd":"/tmp","pid":7,"started_at":"2026-11-21T10:20:30.123456Z","started_ns":99,"redaction":"none"}\n'
    )


def test_a_finding_looks_like_this() -> None:
    finding = Finding(
        "PROTO-007", "error", "server", "no", 12, (3,), "/id", "2025-11-25", "https://x", "R-008"
    )
    assert encode_finding(finding) == (
        b'{"type":"finding","rule":"PROTO-007","severity":"error","blame":"server","message":"no","frame":12,'
        b'"related":[3],"pointer":"/id","revision":"2025-11-25","source":"https://x","requirement":"R-008"}\n'
    )


def test_a_close_record_looks_like_this() -> None:
    tally = Tally({"client": 1, "server": 2}, {"error": 3, "warning": 0, "info": 0})
    assert encode_close(Close("exited", 0, None, 5), tally) == (
        b'{"type":"close","t":5,"ending":"exited","exit_code":0,"signal":null,"frames":{"client":1,"server":2},'
        b'"findings":{"error":3,"warning":0,"info":0},"judge_error":null}\n'
    )


def test_the_calls_stand_beside_the_findings() -> None:
    tally = Tally({"client": 4, "server": 2}, calls=CallCounts(3, 2, 1), own={"client": 0, "server": 1})
    line = encode_close(Close("exited", 0, None, 5), tally)
    assert b'"calls":{"total":3,"failed":2,"unanswered":1,"cancelled":0},"findings":{' in line
    assert decode(line) == CloseRecord(Close("exited", 0, None, 5), tally)


@pytest.mark.parametrize(
    "calls",
    [
        b"7",
        b"null",
        b"{}",
        b'{"total":3,"failed":"2","unanswered":1}',
        b'{"total":3,"failed":2,"unanswered":1,"cancelled":""}',
    ],
)
def test_calls_that_are_no_counts_are_no_record(calls: bytes) -> None:
    line = encode_close(Close("exited", 0, None, 5), Tally(calls=CallCounts(3, 2, 1)))
    with pytest.raises(NotARecordError):
        decode(line.replace(b'{"total":3,"failed":2,"unanswered":1,"cancelled":0}', calls))


@given(some.events)
@example(Signal("\ud800", -1))  # half a character has another reader, to which -1 was large
def test_every_event_comes_back(event: Frame | Stderr | Eof | Signal | Gap) -> None:
    line = encode(event)
    assert line.count(b"\n") == 1
    assert decode(line) == event


@given(some.frames | some.http_frames, some.messages)
def test_a_message_says_the_same_however_its_record_is_read(frame: Frame, raw: bytes) -> None:
    frame.raw = raw
    line = encode(frame)
    by_value, by_text = decode(line), decode(line[:-1] + b" \n")  # nobody can tell by the end of that one
    assert isinstance(by_value, Frame)
    assert isinstance(by_text, Frame)
    assert by_value == by_text == frame
    read = parse(raw)
    for message in (by_value.message, by_text.message):
        assert message == read
        assert getattr(message, "regular", None) == getattr(read, "regular", None)
        assert getattr(message, "repeats", None) == getattr(read, "repeats", None)


@given(some.frames)
def test_a_frame_in_parts_is_the_same_line(frame: Frame) -> None:
    assert b"".join(frame_parts(frame)) == encode_frame(frame)


@given(some.frames)
def test_every_record_of_a_frame_is_json(frame: Frame) -> None:
    record = json.loads(encode_frame(frame))
    assert list(record)[-1] in ("message", "text", "base64")


@given(some.headers)
def test_every_header_comes_back(header: Header) -> None:
    assert decode(encode_header(header)) == header
    assert header_format(encode_header(header)) == header.format


@given(some.findings)
def test_every_finding_comes_back(finding: Finding) -> None:
    assert decode(encode_finding(finding)) == finding


@given(some.closes, some.tallies)
def test_every_close_record_comes_back(close: Close, tally: Tally) -> None:
    assert decode(encode_close(close, tally)) == CloseRecord(close, tally)


@given(st.binary())
def test_any_other_line_is_refused_and_nothing_else(line: bytes) -> None:
    with pytest.raises(NotARecordError):
        decode(line)


def test_a_message_that_nests_too_deep_is_kept_as_text() -> None:
    frame = Frame(1, "client", b"[" * 100_000 + b"]" * 100_000)
    assert frame.message == Malformed(Flaw.TOO_DEEP)
    assert not is_embeddable(frame)
    assert decode(encode_frame(frame)) == frame


# What other tools make of a trace is still one, as long as the members stay in their order.
RETOLD: dict[str, tuple[bytes, Event | Header | Finding | CloseRecord]] = {
    "spaces": (
        b'{"type": "frame", "seq": 1, "t": 2, "from": "client", "message":[1]}',
        Frame(1, "client", b"[1]", 2),
    ),
    "members that are not known": (
        b'{"type":"frame","seq":1,"t":2,"from":"client","expect":["RPC-005"],"eol":"","continues":true,"message":[]}',
        Frame(1, "client", b"[]", 2, terminated=False, continues=True),
    ),
    "CRLF": (
        b'{"type":"frame","seq":1,"t":2,"from":"client","message":[]}\r\n',
        Frame(1, "client", b"[]", 2),
    ),
    "a short header": (b'{"type":"header","format":1}', Header()),
    "a close record that counts nothing": (
        b'{"type":"close","t":1,"ending":"cut"}',
        CloseRecord(Close("cut", observed_at_ns=1)),
    ),
    "a short finding": (
        b'{"type":"finding","rule":"A","severity":"info","blame":"proxy","message":"m","frame":0}',
        Finding("A", "info", "proxy", "m", 0),
    ),
}


@pytest.mark.parametrize(("line", "record"), RETOLD.values(), ids=RETOLD)
def test_a_line_from_elsewhere_is_read(line: bytes, record: object) -> None:
    assert decode(line) == record


DAMAGED: dict[str, tuple[bytes, str]] = {
    "no JSON": (b"{", "not a trace record"),
    "not UTF-8": (b'{"type":"\xff"}', "not a trace record"),
    "no object": (b"[]", "not a trace record"),
    "too deep": (b"[" * 100_000, "not a trace record"),
    "of no type": (b"{}", "a record of no known type"),
    "of a new type": (b'{"type":"photo"}', "a record of no known type"),
    "a member is missing": (b'{"type":"eof","t":1}', "a record without from"),
    "a time that is text": (b'{"type":"eof","t":"1","from":"client"}', "a record with a bad t"),
    "a time that no clock has": (
        b'{"type":"eof","t":1' + 400 * b"0" + b',"from":"client"}',
        "a record with a number that is too large",
    ),
    "a time that is true": (b'{"type":"eof","t":true,"from":"client"}', "a record with a bad t"),
    "an unknown sender": (b'{"type":"eof","t":1,"from":"me"}', "a record with a bad from"),
    "a command that is no list": (
        b'{"type":"header","format":1,"command":"x"}',
        "a record with a bad command",
    ),
    "a command of numbers": (b'{"type":"header","format":1,"command":[1]}', "a record with a bad command"),
    "bad base64": (b'{"type":"stderr","t":1,"base64":"/w="}', "damaged text"),
    "base64 that is no text": (b'{"type":"stderr","t":1,"base64":1}', "a record with a bad base64"),
    "text with half a character": (b'{"type":"stderr","t":1,"text":"\\ud800"}', "damaged text"),
    "a flipped byte": (
        b'{"type":"frame","seq":1,"t":2,"from":"client","message":{"a":1]}',
        "a damaged message",
    ),
    "no closing brace": (b'{"type":"frame","seq":1,"t":2,"from":"client","message":[]]', "a damaged message"),
    "a message that is not last": (
        b'{"type":"frame","seq":1,"t":2,"from":"client","message":[],"seen":1}',
        "a damaged message",
    ),
    "a message before the rest": (
        b'{"type":"frame","message":{},"seq":1,"t":2,"from":"client"}',
        "a damaged message",
    ),
    "two messages": (
        b'{"type":"frame","seq":1,"t":2,"from":"client","message":{},"message":[]}',
        "a damaged message",
    ),
    "a sender that is no word": (
        b'{"type":"frame","seq":1,"t":2,"from":[],"message":{}}',
        "a record with a bad from",
    ),
    "a frame without a number": (
        b'{"type":"frame","seq":null,"t":2,"from":"client","message":{}}',
        "a record with a bad seq",
    ),
    "a frame of nothing": (b'{"type":"frame","seq":1,"t":2,"from":"client"}', "a record without text"),
}


@pytest.mark.parametrize(("line", "fact"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_line_is_refused(line: bytes, fact: str) -> None:
    with pytest.raises(NotARecordError, match=f"^{fact}$"):
        decode(line)


def test_only_a_header_has_a_format() -> None:
    with pytest.raises(NotARecordError, match="no header"):
        header_format(encode(Eof("client")))
    with pytest.raises(NotARecordError, match="without format"):
        header_format(b'{"type":"header"}')


SESSION = b',"session":"1a2b3c4d",'


@pytest.mark.parametrize(
    "what", ["a request", "a response", "a body", "an SSE event", "the end of an exchange"]
)
def test_a_session_is_named_and_passed_over(what: str) -> None:
    event, line = EVENTS[what]
    named = encode(event, "1a2b3c4d")
    assert named == line.replace(b'"connection":3,', b'"connection":3' + SESSION) + b"\n"
    assert decode(named) == event


SERVED = b'{"type":"frame","seq":7,"t":8,"from":"server","exchange":2,"connection":3,'
BROKEN_HTTP = {
    "a head without a method": b'{"type":"request","seq":1,"t":1,"exchange":1,"connection":1}',
    "headers that are none": b'{"type":"response","seq":5,"t":6,"exchange":2,"connection":3,"status":200,'
    b'"reason":"","version":"1.0","headers":[["a"]]}',
    "an event that is none": SERVED + b'"event":{"before":7,"after":null},"message":{}}',
    "an event in bad base64": SERVED + b'"event":{"before":{"base64":"?"},"after":null},"message":{}}',
    "encoded bytes in bad base64": b'{"type":"encoded","t":9,"exchange":2,"connection":3,'
    b'"from":"server","base64":"?"}',
    "an end by nobody": b'{"type":"end","t":9,"exchange":2,"connection":3,"cut":true,"by":"me"}',
}


@pytest.mark.parametrize("line", BROKEN_HTTP.values(), ids=BROKEN_HTTP)
def test_a_damaged_record_of_http_is_refused(line: bytes) -> None:
    with pytest.raises(NotARecordError):
        decode(line)


def test_the_bytes_of_a_body() -> None:
    records = [
        Frame(1, "server", b"{}", exchange=1, connection=1, event=SseEvent(b"data: ", b"\n\n")),
        Frame(2, "client", b"question", exchange=1, connection=1),
        Encoded(2, 1, "server", b"pa"),
        Frame(3, "server", b"a\nb", exchange=1, connection=1, event=SseEvent(b"data: a\ndata: b\n\n", None)),
        Encoded(2, 1, "server", b"cked"),
        Frame(4, "server", b"unpacked", exchange=2, connection=1),
    ]
    assert body_bytes(records, 1, "server") == b"data: {}\n\ndata: a\ndata: b\n\n"
    assert body_bytes(records, 1, "client") == b"question"
    assert body_bytes(records, 2, "server") == b"packed"
    assert body_bytes(records, 3, "server") == b""


@pytest.mark.parametrize(
    ("raw", "member"),
    [
        (b'{"a":"\\ud800"}', b'"text":'),
        (b'{"a":"\\uD83D"}', b'"text":'),
        (b'{"a":"\\ud83d\\ude00"}', b'"message":'),
    ],
)
def test_half_a_character_is_kept_where_every_json_reader_takes_the_record(raw: bytes, member: bytes) -> None:
    line = encode_frame(Frame(1, "client", raw))
    assert member in line
    json.loads(line)
    assert decode(line) == Frame(1, "client", raw)
