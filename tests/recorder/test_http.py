"""Turn the bytes of HTTP connections into events: conversations, for every split of the bytes."""

import gzip
import json
import zlib
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpproxy.judge.session.frame import (
    Close,
    Event,
    ExchangeEnd,
    Finding,
    Frame,
    Gap,
    Note,
    Opaque,
    RequestHead,
    ResponseHead,
    SseEvent,
)
from mcpproxy.judge.session.outcomes import CallCounts
from mcpproxy.record.recorder.checkpoint_state import StateError, restore_assembly, save_assembly
from mcpproxy.record.recorder.http import body_frames, memory_budget
from mcpproxy.record.recorder.http.assembly import HttpAssembly
from mcpproxy.record.recorder.judge import NothingJudged, standard_observer
from mcpproxy.record.recorder.recovery import recover
from mcpproxy.record.recorder.stderr_notes import StderrNotes
from mcpproxy.record.relay import journal
from mcpproxy.record.trace.reader import read_trace
from mcpproxy.record.trace.records import Encoded, Recorded
from tests.recorder import http_journals as wire
from tests.recorder.http_journals import (
    CONVERSATION,
    EVENTS,
    TOOLS,
    answer,
    chunk,
    client,
    client_eof,
    connect,
    get,
    own,
    post,
    server,
    server_eof,
    start,
    stream,
)
from tests.recorder.journals import (
    EXIT,
    STARTED_NS,
    Accuser,
    Entry,
    JournalFolder,
    gap,
    packed,
    record,
    recording,
)
from tests.recorder.test_recovery import MortalWriter, record_until_killed
from tests.trace.bodies import body_bytes


def assembled(entries: Iterable[Entry], begin: Entry | None = None) -> list[Recorded]:
    """The events of the connections, with those of the end of the journal."""
    assembly = HttpAssembly((begin or start())[1])
    found: list[Recorded] = []
    for kind, payload, at_ns, number in entries:
        if kind == journal.GAP:
            found += assembly.gap(at_ns - STARTED_NS)
        else:
            found += assembly.take(kind, payload, at_ns - STARTED_NS, number)
    return [*found, *assembly.end()]


def said(
    trace: Path,
    capfd: pytest.CaptureFixture[str],
    *exchanges: tuple[bytes, bytes],
    upstream: str = "https://a.example/mcp",
) -> list[str]:
    """The lines on stderr of a recording of these requests and responses, one connection for each."""
    entries = [start(upstream=upstream)]
    for number, (asked, answered) in enumerate(exchanges, 1):
        entries += [connect(number), client(asked, number=number), server(answered, number=number)]
    return said_of(trace, capfd, entries)


def said_of(trace: Path, capfd: pytest.CaptureFixture[str], entries: list[Entry]) -> list[str]:
    """The lines on stderr of a recording of this journal."""
    JournalFolder(trace, [*entries, EXIT])
    live = StderrNotes(2)
    session, writer = recording(trace, NothingJudged, live)
    session.drain()
    assert session.finish()
    writer.close()
    live.flush()
    return [line.removeprefix("mcpproxy: ") for line in capfd.readouterr().err.splitlines()]


def redirect(location: str, status: str = "307 Temporary Redirect") -> bytes:
    return answer(b"", f"Location: {location}", status=status)


PAST: Final = "the server redirects to {}, past mcpproxy: give that URL"


@pytest.mark.parametrize(
    ("location", "named"),
    [
        ("https://b.example/mcp/?key=s3cret", "https://b.example/mcp/"),
        ("//user:s3cret@b.example:8443/mcp", "https://b.example:8443/mcp"),
        ("http://a.example/mcp", "http://a.example/mcp"),
        ("https://a.example:8443/mcp", "https://a.example:8443/mcp"),
        ("https://b.example/\x1b[31m" + "x" * 600, "https://b.example/%1B[31m" + "x" * 475),
        ("https://A.example:443/mcp/", ""),
        ("/mcp/", ""),
        ("https://[", ""),
        ("mailto:x@b.example", ""),
    ],
)
def test_a_redirect_to_another_origin_is_said_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], location: str, named: str
) -> None:
    followed = (post(b"{}"), redirect(location))
    lines = said(tmp_path / "t.jsonl", capfd, followed, followed, followed)
    assert lines == ([PAST.format(named)] if named else [])


@pytest.mark.parametrize(
    ("upstream", "method", "status", "location", "why"),
    [
        ("https://a.example/mcp/", "POST", "307 Temporary Redirect", "/mcp", "at that path of mcpproxy"),
        (
            "https://a.example/r",
            "POST",
            "308 Permanent Redirect",
            "https://a.example/mcp?k=1",
            "at that path",
        ),
        ("https://a.example/mcp", "POST", "301 Moved Permanently", "/v2/mcp", "do not follow with a POST"),
        ("https://a.example/mcp", "POST", "307 Temporary Redirect", "/v2/mcp", ""),
        ("https://a.example/mcp", "POST", "307 Temporary Redirect", "/mcp", ""),
        ("https://a.example/mcp", "GET", "301 Moved Permanently", "/v2/mcp", ""),
    ],
)
def test_a_redirect_within_the_origin_that_leads_clients_nowhere_is_said(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    upstream: str,
    method: str,
    status: str,
    location: str,
    why: str,
) -> None:
    asked = post(b"{}") if method == "POST" else get("/mcp")
    redirected = (asked, redirect(location, status))
    lines = said(tmp_path / "t.jsonl", capfd, redirected, redirected, upstream=upstream)
    assert len(lines) == bool(why)
    for line in lines:
        path = location.removeprefix("https://a.example").partition("?")[0]
        assert line.startswith(f"the server redirects to https://a.example{path}, ")
        assert line.endswith(": give that URL")
        assert why in line


def test_a_server_that_redirects_each_request_elsewhere_fills_no_screen(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    exchanges = [(post(b"{}"), redirect(f"https://b{number}.example/mcp")) for number in range(30)]
    lines = said(tmp_path / "t.jsonl", capfd, *exchanges)
    assert lines == [PAST.format(f"https://b{number}.example/mcp") for number in range(20)]


def test_a_redirect_that_may_be_a_login_is_not_said_to_be_the_server(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    login = (post(b"{}"), redirect("https://b.example/login?next=/mcp", "302 Found"))
    lines = said(tmp_path / "t.jsonl", capfd, login)
    assert lines == ["the server redirects to https://b.example/login, past mcpproxy: perhaps for a login"]


def test_a_host_that_the_server_does_not_serve_is_said_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    refused = (post(b"{}"), answer(b"Invalid Host header", status="421 Misdirected Request"))
    [line] = said(tmp_path / "t.jsonl", capfd, refused, refused)
    host = "the server does not serve the host of https://a.example/mcp (HTTP 421)"
    assert line == f"{host}; the server has to allow the host a.example"


def hung_up(upstream: str, *, is_late: bool) -> list[Entry]:
    """The journal of a server that closes two connections without a response, perhaps after one with it."""
    entries = [start(upstream=upstream)]
    if is_late:
        entries += [connect(3), client(post(b"{}"), number=3), server(answer(b"{}"), number=3)]
    for number in (1, 2):
        ends = [server_eof(number=number), client_eof(b"closed", number=number)]
        entries += [connect(number), client(post(b"{}"), number=number), *ends]
    return entries


def test_a_server_that_hangs_up_on_plain_http_may_speak_tls(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    entries = hung_up("http://a.example:8443/mcp", is_late=False)
    [line] = said_of(tmp_path / "t.jsonl", capfd, entries)
    assert line.endswith("without a response: if its port speaks TLS, give https://a.example:8443/mcp")


@pytest.mark.parametrize(
    ("upstream", "is_late"), [("https://a.example/mcp", False), ("http://a.example/mcp", True)]
)
def test_a_server_that_speaks_tls_or_has_responded_is_not_asked_for_tls(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], upstream: str, is_late: bool
) -> None:
    assert said_of(tmp_path / "t.jsonl", capfd, hung_up(upstream, is_late=is_late)) == []


def test_a_redirect_that_is_not_of_the_endpoint_is_not_said(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    login = (get("/authorize"), redirect("https://b.example/login", "302 Found"))
    cached = (get("/mcp"), redirect("https://b.example/mcp", "304 Not Modified"))
    assert said(tmp_path / "t.jsonl", capfd, login, cached) == []


@pytest.mark.parametrize(
    ("title", "advice"),
    [
        ("400 No required SSL certificate was sent", "give one with --client-cert and --client-key"),
        ("400 The SSL certificate error", "perhaps it does not accept the certificate of --client-cert"),
    ],
)
def test_a_page_that_asks_for_our_certificate_is_said_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], title: str, advice: str
) -> None:
    page = f"<html><head><title>{title}</title></head></html>".encode()
    refused = (post(b"{}"), answer(page, status="400 Bad Request", kind="text/html"))
    served = (post(b"{}"), answer(page, kind="text/html"))
    lines = said(tmp_path / "t.jsonl", capfd, served, refused, refused)
    assert lines == [
        f"the server answers HTTP 400 for want of a client certificate that it accepts; {advice}"
    ]


def without_notes(events: Iterable[Recorded]) -> list[Recorded]:
    return [event for event in events if not isinstance(event, Note)]


def told(events: Iterable[Recorded]) -> list[str]:
    """Each event in a word or two, for conversations."""
    return [_word(event) for event in without_notes(events)]


def _word(event: Recorded) -> str:
    match event:
        case RequestHead():
            return f"{event.exchange} {event.method} {event.target}"
        case ResponseHead():
            return f"{event.exchange} {event.status}" + " by proxy" * event.by_proxy
        case Frame():
            marks = (
                " cut" * (not event.terminated) + " piece" * event.continues + " by proxy" * event.by_proxy
            )
            return f"{event.exchange} {event.sender}: {event.raw.decode('latin-1')}{marks}"
        case ExchangeEnd():
            return f"{event.exchange} end" + (f" cut by {event.by}" if event.cut else "")
        case Opaque():
            by = " by proxy" if event.by_proxy else ""
            return f"opaque {event.sender} {event.size}{by}: {event.reason}"
        case Encoded():
            return f"{event.exchange} encoded {event.sender}"
        case _:
            return type(event).__name__


PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
PONG = b'{"jsonrpc":"2.0","id":1,"result":{}}'
PINGS = f"1 client: {PING.decode()}"
PONGS = f"1 server: {PONG.decode()}"
OK = b"HTTP/1.1 200 OK\r\n"

CONVERSATIONS: dict[str, tuple[list[Entry], list[str]]] = {
    "a question and its answer": (
        [client(post(PING)), server(answer(PONG))],
        ["1 POST /mcp", PINGS, "1 200", PONGS, "1 end"],
    ),
    "nothing in a body is no frame": (
        [client(post(PING)), server(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")],
        ["1 POST /mcp", PINGS, "1 202", "1 end"],
    ),
    "pipelined requests have exchanges of their own": (
        [client(post(PING) * 2), server(answer(PONG) * 2)],
        [
            "1 POST /mcp",
            PINGS,
            "2 POST /mcp",
            PINGS.replace("1 client", "2 client"),
            "1 200",
            PONGS,
            "1 end",
            "2 200",
            PONGS.replace("1 server", "2 server"),
            "2 end",
        ],
    ),
    "exchanges are counted over all connections": (
        [client(get("/a"), number=7), client(get("/b"), number=9), server(answer(b"{}"), number=9)],
        ["1 GET /a", "2 GET /b", "2 200", "2 server: {}", "2 end"],
    ),
    "an interim response": (
        [client(post(PING)), server(b"HTTP/1.1 100 Continue\r\n\r\n" + answer(PONG))],
        ["1 POST /mcp", PINGS, "1 100", "1 200", PONGS, "1 end"],
    ),
    "an answer before the request is over": (
        [client(post(PING)[:-5]), server(answer(PONG)), client(post(PING)[-5:])],
        ["1 POST /mcp", "1 200", PONGS, PINGS, "1 end"],
    ),
    "a server that hangs up in the middle of a body": (
        [client(post(PING)), server(answer(PONG)[:-3]), server_eof(), client_eof(b"closed")],
        ["1 POST /mcp", PINGS, "1 200", PONGS[:-3] + " cut", "1 end cut by server"],
    ),
    "a client that goes away": (
        [client(post(PING)), client_eof(b"reset"), server_eof(b"closed")],
        ["1 POST /mcp", PINGS, "1 end cut by client"],
    ),
    "a body that goes on until the client is gone": (
        [client(get("/x")), server(OK + b"\r\nhalf"), client_eof(b"reset"), server_eof(b"closed")],
        ["1 GET /x", "1 200", "1 server: half cut", "1 end cut by client"],
    ),
    "mcpproxy is told to stop": (
        [client(get("/x")), server(OK + b"\r\nhalf"), client_eof(b"closed"), server_eof(b"closed")],
        ["1 GET /x", "1 200", "1 server: half cut", "1 end cut by proxy"],
    ),
    "an answer of our own": (
        [client(get("/x")), own(answer(b"{}", status="502 Bad Gateway"))],
        ["1 GET /x", "1 502 by proxy", "1 server: {} by proxy", "1 end"],
    ),
    "what is no HTTP": (
        [client(b"\x16\x03\x01 hello"), client_eof(), server_eof(b"closed")],
        ["opaque client 9: this is not an HTTP request"],
    ),
    "what is no HTTP, and was refused": (
        [client(b"\n"), own(b"HTTP/1.1 400 Bad Request\r\n\r\n"), client_eof(), server_eof(b"closed")],
        ["opaque server 28 by proxy: nothing was asked"],
    ),
    "a tunnel": (
        [
            client(b"CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n\r\n"),
            own(b"HTTP/1.1 200 Connection established\r\n\r\n"),
            (journal.OPAQUE, b"", STARTED_NS, 1),
            client(b"x" * 10),
            server(b"y" * 20),
            client(b"x" * 5),
            client_eof(),
            server_eof(),
        ],
        [
            "1 CONNECT h:443",
            "1 200 by proxy",
            "1 end",
            "opaque client 10: it is not HTTP any more",
            "opaque server 20: it is not HTTP any more",
            "opaque client 5: it is not HTTP any more",
        ],
    ),
    "what was under way when bytes were lost is given up": (
        [
            client(post(PING)),
            server(answer(PONG)[:-3]),
            gap(server=3),
            server(b"rest"),
            client(post(PING)),
            server(answer(PONG)),
        ],
        [
            "1 POST /mcp",
            PINGS,
            "1 200",
            PONGS[:-3] + " cut piece",
            "1 end cut by proxy",
            "opaque server 4: something before it was not recorded",
            "2 POST /mcp",
            PINGS.replace("1 client", "2 client"),
            "2 200",
            PONGS.replace("1 server", "2 server"),
            "2 end",
        ],
    ),
    "a recording that stops in the middle": (
        [client(post(PING)), server(answer(PONG)[:-3])],
        ["1 POST /mcp", PINGS, "1 200", PONGS[:-3] + " cut piece"],
    ),
}


@pytest.mark.parametrize(("entries", "expected"), CONVERSATIONS.values(), ids=CONVERSATIONS)
def test_a_conversation(entries: list[Entry], expected: list[str]) -> None:
    assert told(assembled(entries)) == expected


def test_heads_and_frames_are_numbered_together() -> None:
    numbers = [
        event.seq
        for event in assembled(CONVERSATION[1:-1])
        if isinstance(event, Frame | RequestHead | ResponseHead)
    ]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_head_is_recorded_as_the_client_sent_it() -> None:
    (_, head, *_) = assembled([connect(), client(get("/mcp?a=1", "X-A: 1", "x-a:  2", "X-B: ü"))])
    fields = (("Host", "h"), ("X-A", "1"), ("x-a", "2"), ("X-B", "ü"))
    assert head == RequestHead(1, 1, 1, "GET", "/mcp?a=1", fields, True, "1.1", 1)


def test_events_come_one_by_one_with_their_bytes() -> None:
    entries = [
        client(get("/mcp")),
        server(stream() + chunk(EVENTS[:20]), 5),
        server(chunk(EVENTS[20:]) + wire.LAST_CHUNK, 6),
    ]
    found = [event for event in assembled(entries) if isinstance(event, Frame)]
    assert [(frame.raw, frame.event, frame.terminated) for frame in found] == [
        (b"", SseEvent(b": hello\n\n", b""), True),
        (b"", SseEvent(b"id: 1\nretry: 500\ndata:", b"\n\n", "1", None, 500), True),
        (TOOLS, SseEvent(b"event: message\r\nid: 2\r\ndata: ", b"\r\n\r\n", "2", "message"), True),
        (
            b'{"jsonrpc":"2.0",\n"method":"notifications/x"}',
            SseEvent(b'data: {"jsonrpc":"2.0",\ndata: "method":"notifications/x"}\n\n', None),
            True,
        ),
        (b"cut sho", SseEvent(b"data: ", b""), False),
    ]
    assert [frame.observed_at_ns for frame in found] == [5, 6, 6, 6, 6]
    assert body_bytes(found, 1, "server") == EVENTS


def test_a_compressed_body_is_recorded_encoded_and_decoded() -> None:
    packed = gzip.compress(PONG)
    found = assembled([client(post(PING)), server(answer(packed, "Content-Encoding: gzip"))])
    assert told(found)[2:] == ["1 200", "1 encoded server", PONGS, "1 end"]
    assert body_bytes(found, 1, "server") == packed


def test_a_compressed_stream_is_decoded_as_it_comes() -> None:
    packer = zlib.compressobj(wbits=31)
    first = packer.compress(EVENTS[:9]) + packer.flush(zlib.Z_SYNC_FLUSH)
    rest = packer.compress(EVENTS[9:]) + packer.flush()
    entries = [
        client(get("/mcp")),
        server(stream("Content-Encoding: gzip") + chunk(first)),
        server(chunk(rest) + wire.LAST_CHUNK),
    ]
    found = assembled(entries)
    assert [word.partition(":")[0] for word in told(found)[2:5]] == [
        "1 server",
        "1 encoded server",
        "1 server",
    ]
    assert body_bytes(found, 1, "server") == first + rest


@pytest.mark.parametrize("coding", ["x-unheard-of", "gzip"])
def test_what_cannot_be_decoded_is_a_piece(coding: str) -> None:
    found = assembled([client(post(PING)), server(answer(b"garbage", f"Content-Encoding: {coding}"))])
    assert told(found)[2:] == ["1 200", "1 encoded server", "1 server: garbage cut piece", "1 end"]
    assert [event.what for event in found if isinstance(event, Note)] == ["not-decoded"]
    assert body_bytes(found, 1, "server") == b"garbage"


def test_a_call_with_an_answer_that_cannot_be_decoded_was_answered(tmp_path: Path) -> None:
    trace = tmp_path / "s.jsonl"
    sent = [client(post(PING)), server(answer(b"garbage", "Content-Encoding: x-unheard-of"))]
    JournalFolder(trace, [start(), *sent, EXIT])
    session, writer = recording(trace)
    session.drain()
    assert session.finish()
    writer.close()
    assert session.tally.calls == CallCounts(1, failed=0, unanswered=0, unreadable=1)
    why = "the content coding x-unheard-of cannot be undone here"
    assert session.tally.undecoded == {why: 1}
    (said,) = [event for event in read_trace(str(trace)).events() if isinstance(event, Note)]
    assert (said.why, said.exchange) == (why, 1)


def test_a_compressed_body_that_ends_too_early() -> None:
    packed = gzip.compress(PONG)[:-9]
    found = assembled([client(post(PING)), server(answer(packed, "Content-Encoding: gzip"))])
    assert [event.why for event in found if isinstance(event, Note)] == ["the gzip content ends too early"]
    assert not next(e for e in found if isinstance(e, Frame) and e.sender == "server").terminated


def test_a_body_too_long_to_hold_comes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_frames, "BODY_BYTES", 4)
    found = assembled([client(get("/x")), server(answer(b"123456789", kind="text/plain"))])
    assert told(found)[2:] == ["1 server: 1234 cut piece", "1 server: 5678 cut piece", "1 server: 9", "1 end"]


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
def test_long_bodies_are_recorded_in_short_pieces_of_whole_characters(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body_frames, "BODY_BYTES", 8)
    monkeypatch.setattr(body_frames, "PIECE_BYTES", 4)
    body = "data: äöü€x漢\n\n".encode()
    found = assembled([client(post(PING)), server(answer(body, kind=kind))])
    frames = [event for event in found if isinstance(event, Frame) and event.sender == "server"]
    assert body_bytes(found, 1, "server") == body
    assert all(frame.continues for frame in frames[:-1])
    assert not frames[-1].continues
    texts = [frame.raw + (frame.event.before if frame.event else b"") for frame in frames]
    assert [text.decode() for text in texts][:4] == ["data", ": ä", "öü", "€x"]


def test_a_body_too_costly_to_judge_is_recorded_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_budget, "SMALL_BYTES", 10)
    monkeypatch.setattr(memory_budget, "BUDGET_BYTES", 2 * memory_budget.estimate_cost(PONG))
    costly = PONG.replace(b"{}", b"[" + b"0," * 100 + b"0]")
    half = (len(costly) + 1) // 2
    first, rest = costly[:half], costly[half:]
    found = assembled([client(post(PING)), server(answer(costly))])
    assert told(found)[2:] == [
        "1 200",
        f"1 server: {first.decode()} cut piece",
        f"1 server: {rest.decode()}",
        "1 end",
    ]
    event = b"id: 7\ndata: " + costly + b"\n\n"
    found = assembled([client(post(PING)), server(answer(event, kind="text/event-stream"))])
    assert [frame.continues for frame in found if isinstance(frame, Frame)] == [False, True, False]
    assert body_bytes(found, 1, "server") == event


def test_what_a_request_has_cost_is_given_back_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_budget, "SMALL_BYTES", 10)
    monkeypatch.setattr(memory_budget, "BUDGET_BYTES", 3 * memory_budget.estimate_cost(PING) // 2)
    pairs = [entry for _ in range(5) for entry in (client(post(PING)), server(answer(b"")))]
    found = assembled([connect(1), *pairs, client(post(PING)), client_eof(), server_eof()])
    assert not any(event.continues for event in found if isinstance(event, Frame))
    both = assembled([client(post(PING)), client(post(PING), number=2)])
    assert [event.continues for event in both if isinstance(event, Frame)] == [False, True, False]


def test_secrets_are_in_no_record() -> None:
    text = "".join(map(repr, assembled(CONVERSATION[1:-1])))
    for secret in ("s3cret", wire.SESSION_ID, "abc", '"x"', "client_secret=x", '"top"', "code=q"):
        assert secret not in text
    assert "Bearer masked(len=6,visible=yes,hash=" in text
    assert "expires_in" in text


def test_secrets_stay_with_keep_credentials() -> None:
    begin = start(keep_credentials=True)
    text = "".join(map(repr, assembled(CONVERSATION[1:-1], begin)))
    for secret in ("Bearer s3cret", wire.SESSION_ID, "code=abc", '"top"', "code=q"):
        assert secret in text


TOKEN = b'{"access_token": "top-secret"}'


def test_encoded_bytes_that_hold_a_secret_are_left_out() -> None:
    entries = [client(get("/token")), server(answer(gzip.compress(TOKEN), "Content-Encoding: gzip"))]
    assert told(assembled(entries))[2].startswith('1 server: {"access_token": "masked(len=10,')
    kept = assembled(entries, start(keep_credentials=True))
    assert body_bytes(kept, 1, "server") == entries[1][1].partition(b"\r\n\r\n")[2]


def test_encoded_bytes_without_a_secret_stay() -> None:
    packed = gzip.compress(b'{"issuer": "x"}')
    entries = [client(get("/.well-known/x")), server(answer(packed, "Content-Encoding: gzip"))]
    assert body_bytes(assembled(entries), 1, "server") == packed


def test_an_undecodable_body_that_may_hold_secrets_is_withheld() -> None:
    entries = [client(get("/token")), server(answer(b"?!", "Content-Encoding: x-unheard-of"))]
    found = assembled(entries)
    assert told(found) == ["1 GET /token", "1 200", "1 end"]
    assert [event.what for event in found if isinstance(event, Note)] == ["not-decoded", "withheld"]


ENDPOINTS = {
    ("reverse", "/mcp"): True,
    ("reverse", "/mcp?key=1"): True,
    ("reverse", "/mcp/"): False,
    ("reverse", "/token"): False,
    ("forward", "http://h:1/mcp"): True,
    ("forward", "http://h:1/mcp?x"): True,
    ("forward", "http://h:1/token"): False,
    ("forward", "http://h:1"): False,
}


@pytest.mark.parametrize(("mode", "target"), ENDPOINTS)
def test_which_requests_are_for_the_endpoint(mode: str, target: str) -> None:
    head = assembled([client(get(target))], start(mode=mode))[0]
    assert isinstance(head, RequestHead)
    assert head.endpoint == ENDPOINTS[mode, target]


@pytest.mark.parametrize("field", ["Accept: application/json, text/event-stream", "Mcp-Session-Id: x"])
def test_in_forward_mode_a_request_like_those_of_mcp_clients_goes_to_an_endpoint(field: str) -> None:
    head = assembled([client(get("http://h/else", field))], start(mode="forward"))[0]
    assert isinstance(head, RequestHead)
    assert head.endpoint


def test_who_ended_a_connection_first_is_noted() -> None:
    for ends, who in (
        ([server_eof(), client_eof(b"closed")], "the server"),
        ([client_eof(b"reset"), server_eof(b"closed")], "the client"),
        ([client_eof(b"closed"), server_eof(b"closed")], "mcpproxy"),
    ):
        *_, note = assembled([connect(), client(get("/")), server(answer(b"")), *ends])
        assert isinstance(note, Note)
        assert (note.what, note.why) == ("closed", f"{who} ended it first")


def test_when_a_client_left_is_recorded_although_its_server_goes_on() -> None:
    sent = [connect(), client(post(PING))]
    *_, left, _ = assembled([*sent, client_eof(at=8), server_eof(at=500)])
    assert left == ExchangeEnd(1, 1, True, "client", 500, 8)
    *_, stayed, _ = assembled([*sent, server_eof(at=8), client_eof(at=500)])
    assert stayed == ExchangeEnd(1, 1, True, "server", 500)


# However it was read


def joined(events: Iterable[Recorded]) -> list[Recorded]:
    """Encoded bytes in one piece: they are filed as they come."""
    found: list[Recorded] = []
    for event in events:
        if isinstance(event, Encoded) and found and isinstance(last := found[-1], Encoded):
            event = Encoded(
                last.exchange, last.connection, last.sender, last.data + event.data, last.observed_at_ns
            )
            found.pop()
        found.append(event)
    return found


def split(entries: list[Entry], *cuts: int) -> list[Entry]:
    """Every chunk cut at the same places, as far as it goes."""
    chunks: list[Entry] = []
    for kind, payload, at_ns, number in entries:
        if kind in (journal.CLIENT, journal.SERVER, journal.OWN):
            places = [0, *(cut for cut in cuts if cut < len(payload)), len(payload)]
            chunks += [(kind, payload[a:b], at_ns, number) for a, b in pairwise(places)]
        else:
            chunks.append((kind, payload, at_ns, number))
    return chunks


WHOLE = joined(assembled(CONVERSATION[1:-1]))


def test_every_split_gives_the_same_events() -> None:
    longest = max(len(payload) for _, payload, _, _ in CONVERSATION)
    for cut in range(1, longest):
        assert joined(assembled(split(CONVERSATION[1:-1], cut))) == WHOLE
    assert joined(assembled(split(CONVERSATION[1:-1], *range(longest)))) == WHOLE


def test_a_head_sent_again_is_masked_by_what_is_known_then() -> None:
    """The same head comes before and after the event that names its session id."""
    early = client(get("/messages/0123456789abcdef"))
    event = b"event: endpoint\ndata: /messages/0123456789abcdef\n\n"
    found = assembled([early, server(answer(b"")), client(get("/sse"), number=2),
                       server(stream() + chunk(event), number=2), early])  # fmt: skip
    first, _, again = (event.target for event in found if isinstance(event, RequestHead))
    assert first == "/messages/0123456789abcdef"
    assert again.startswith("/messages/masked(len=16,")


def test_a_resumed_stream_is_masked_by_the_ids_of_its_own_connection() -> None:
    resumed = get("/mcp", "Last-Event-ID: 0123456789abcdef_1")
    named = get("/mcp", "Mcp-Session-Id: 0123456789abcdef")
    found = assembled(
        [client(resumed), client(named, number=2), server(answer(b""), number=2), client(resumed, number=2)]
    )
    heads = [dict(event.headers) for event in found if isinstance(event, RequestHead)]
    assert heads[0]["Last-Event-ID"] == "0123456789abcdef_1"
    assert heads[2]["Last-Event-ID"].startswith("masked(len=16,")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 400), min_size=2, max_size=6, unique=True).map(sorted))
def test_any_split_gives_the_same_events(cuts: list[int]) -> None:
    assert joined(assembled(split(CONVERSATION[1:-1], *cuts))) == WHOLE


def test_recording_continues_from_a_checkpoint_at_any_point() -> None:
    """Frozen and thawed between any two chunks, through JSON, with its decoders shown what they had read."""
    entries = split(CONVERSATION[1:-1], *range(0, 2000, 7))
    assembly = HttpAssembly(start()[1])
    found: list[Recorded] = []
    for kind, payload, at_ns, number in entries:
        state, long = save_assembly(assembly)
        assembly = restore_assembly(json.loads(json.dumps(state)), [bytes(run) for run in long])
        for event in found:
            if isinstance(event, Encoded):
                assembly.feed_again(event)
        found += assembly.take(kind, payload, at_ns - STARTED_NS, number)
    assert joined([*found, *assembly.end()]) == WHOLE


def test_a_compressed_body_that_was_held_back_at_a_checkpoint_is_decoded() -> None:
    packed = gzip.compress(TOKEN)
    whole = server(answer(packed, "Content-Encoding: gzip"))
    cut = len(whole[1]) - len(packed) // 2
    assembly = HttpAssembly(start()[1])
    found: list[Recorded] = []
    for kind, payload, at_ns, number in [client(get("/token")), *split([whole], cut)]:
        found += assembly.take(kind, payload, at_ns - STARTED_NS, number)
        state, long = save_assembly(assembly)
        assembly = restore_assembly(json.loads(json.dumps(state)), [bytes(run) for run in long])
    assert told(found)[2].startswith('1 server: {"access_token": "masked(len=10,')


def test_a_state_is_small_while_a_stream_is_long() -> None:
    assembly = HttpAssembly(start()[1])
    for entry in (client(get("/mcp")), server(stream()), *[server(chunk(b"data: {}\n\n"))] * 1000):
        assert list(assembly.take(*entry))
    assert 0 < assembly.held_bytes < 5000  # the exchange is open
    assert len(json.dumps(save_assembly(assembly)[0])) < 5000


DAMAGED: list[object] = [
    None,
    [],
    {},
    "x",
    1,
    ["Frame", 0, {}],
    ["object", 0, {}],
    ["Half", 0, {}],
    ["same", 3],
    ["function", "os.system"],
    ["method", ["list", 0, []], "append"],
    ["HttpAssembly", 0, {"_salt": 1}],
    ["bytes", 1],
    ["list", 0, [["?"]]],
]


@pytest.mark.parametrize("state", DAMAGED, ids=repr)
def test_anything_but_a_saved_state_is_refused(state: object) -> None:
    with pytest.raises(StateError):
        restore_assembly(state, ())  # pyright: ignore[reportArgumentType] # JSON from a file


# In the trace


def events(trace: Path) -> list[Event | Finding]:
    return [event for event in read_trace(str(trace)).events() if not isinstance(event, Finding)]


def test_the_trace_holds_what_was_assembled(tmp_path: Path) -> None:
    trace = tmp_path / "h.jsonl"
    JournalFolder(trace, CONVERSATION)
    record(trace)
    records = list(read_trace(str(trace)).records())
    found = [record for record in records if not isinstance(record, Finding | Close)]
    assert records[-1] == Close("exited", 0, None, 900)
    assert joined(found) == WHOLE
    header = read_trace(str(trace)).header
    assert (header.transport, header.redaction, header.mode, header.endpoint) == (
        "http",
        "credentials",
        "reverse",
        "/mcp",
    )
    assert wire.SALT.hex() not in trace.read_text()


def test_sessions_are_named_as_soon_as_they_are_known(tmp_path: Path) -> None:
    trace = tmp_path / "h.jsonl"
    JournalFolder(trace, CONVERSATION)
    record(trace)
    named = [json.loads(line) for line in trace.read_text().splitlines()]
    by_exchange = {
        number: [r.get("session") for r in named if r.get("exchange") == number] for number in range(1, 6)
    }
    (name,) = {session for found in by_exchange.values() for session in found if session}
    assert len(name) == 8
    assert by_exchange[1] == [None, None, name, name, name]
    assert set(by_exchange[2]) == set(by_exchange[3]) == {name}
    assert set(by_exchange[5]) == {None}


SEGMENTS = [CONVERSATION[at : at + 4] for at in range(0, len(CONVERSATION), 4)]
"""Connections and bodies run over the ends of the segments."""


def test_killed_anywhere_the_trace_is_the_same(tmp_path: Path) -> None:
    other = tmp_path / "live.jsonl"
    JournalFolder(other, *SEGMENTS)
    record(other)
    whole = other.read_bytes()
    trace = tmp_path / "h.jsonl"
    for life in range(0, len(whole), 61):
        folder = JournalFolder(trace, *SEGMENTS)
        record_until_killed(folder.path, MortalWriter(str(trace), life))
        assert recover(str(trace), Accuser)
        assert trace.read_bytes() == whole
        trace.unlink()


def test_a_long_stream_does_not_keep_the_journal(tmp_path: Path) -> None:
    trace = tmp_path / "h.jsonl"
    folder = JournalFolder(trace, [start(), connect(), client(get("/mcp")), server(stream())])
    session, writer = recording(trace)
    for segment in range(2, 6):
        folder.append(segment, packed(server(chunk(b"data: {}\n\n"))))
        session.drain()
        assert folder.names() == [journal.segment_name(segment), "checkpoint"]
    writer.close()


def test_a_gap_comes_before_the_exchanges_that_it_ends(tmp_path: Path) -> None:
    trace = tmp_path / "h.jsonl"
    JournalFolder(trace, [start(), connect(), client(post(PING)), gap(server=9), EXIT])
    record(trace)
    kinds = [type(event).__name__ for event in events(trace)]
    assert kinds == ["Note", "RequestHead", "Frame", "Gap", "ExchangeEnd", "Close"]
    assert isinstance(events(trace)[3], Gap)


def test_a_signal_is_for_mcpproxy_alone(tmp_path: Path) -> None:
    trace = tmp_path / "h.jsonl"
    JournalFolder(trace, [start(), (journal.SIGNAL, b"SIGTERM", STARTED_NS, 0), EXIT])
    record(trace)
    assert events(trace)[0] == Note(0, "stopped", "mcpproxy received SIGTERM", 0)


# Session ids beyond their header

LEGACY_ID = "c0ffee00-0000-4000-8000-00000badcafe"
LEGACY = [
    "/messages?sessionId={}",
    "/messages/?session_id={}&v=1",
    "/messages?transport={}",
    "/messages/{}",
    "/{}/messages?x=1",
    "http://127.0.0.1:3001/messages?sessionId={}",
]


def legacy(uri: str, posted: str) -> list[Entry]:
    """A session over HTTP+SSE: the stream, and a POST on another connection."""
    endpoint = f"event: endpoint\ndata: {uri}\n\n".encode()
    return [
        start(endpoint="/sse"),
        connect(1),
        client(get("/sse", "Accept: text/event-stream")),
        server(stream() + chunk(endpoint)),
        connect(2),
        client(post(PING, target=posted), number=2),
        server(answer(b"Accepted", status="202 Accepted", kind="text/plain"), number=2),
        server(chunk(b"event: message\ndata: " + PONG + b"\n\n"), 20),
        EXIT,
    ]


@pytest.mark.parametrize("uri", LEGACY)
def test_a_session_id_in_a_url_is_in_no_record_but_still_judged(uri: str, tmp_path: Path) -> None:
    named = uri.format(LEGACY_ID)
    for posted, rules in ((named.removeprefix("http://127.0.0.1:3001"), []), ("/elsewhere", ["HTTP-002"])):
        trace = tmp_path / f"{len(rules)}.jsonl"
        JournalFolder(trace, legacy(named, posted))
        assert recover(str(trace), standard_observer)
        assert LEGACY_ID not in trace.read_text()
        found = list(read_trace(str(trace)).events())
        assert [f.rule for f in found if isinstance(f, Finding) and f.rule == "HTTP-002"] == rules
        said = [event for event in found if isinstance(event, Note) and event.what == "masked"]
        assert [note.why for note in said] == ["credentials in what the server sent"]


def test_a_session_id_that_a_message_repeats_is_masked_there() -> None:
    id = wire.SESSION_ID
    echo = PONG.replace(b"{}", b'{"_meta":{"session":"' + id.encode() + b'"}}')
    event = b"id: " + id.encode() + b"_7\ndata: " + echo + b"\n\n"
    entries = [
        client(post(PING, f"Mcp-Session-Id: {id}")),
        server(answer(echo)),
        client(post(PING)),
        server(answer(event, kind="text/event-stream")),
        client(get("/mcp", f"Last-Event-ID: {id}_7")),
        server(answer(gzip.compress(echo), "Content-Encoding: gzip")),
        client(get("/mcp")),
        server(answer(gzip.compress(event), "Content-Encoding: gzip", kind="text/event-stream")),
    ]
    found = assembled(entries)
    assert id not in "".join(map(repr, found))
    assert not any(isinstance(e, Encoded) for e in found)
    assert [e.what for e in found if isinstance(e, Note)] == ["masked"] * 4
    # The header, the event's id and where it is named again agree: the judge compares them.
    heads = [dict(event.headers) for event in found if isinstance(event, RequestHead)]
    (named,) = [event.event.id for event in found if isinstance(event, Frame) and event.event][:1]
    assert heads[2]["Last-Event-ID"] == named == f"{heads[0]['Mcp-Session-Id']}_7"
    kept = assembled(entries, start(keep_credentials=True))
    assert body_bytes(kept, 1, "server") == echo
    assert body_bytes(kept, 4, "server") == gzip.compress(event)


def test_what_is_too_short_to_be_an_id_stays() -> None:
    found = assembled([client(post(PING, "Mcp-Session-Id: jsonrpc")), server(answer(PONG))])
    assert told(found)[1:4:2] == [PINGS, PONGS]
