"""The judge of HTTP, where no conversation shows it: odd events, odd addresses, bounded memory."""

import json
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.judge.checks import FAMILIES
from mcpproxy.judge.checks.engine.dispatch import Dispatch
from mcpproxy.judge.checks.utilities.cancellation import initialize_cancelled
from mcpproxy.judge.observer import Observer, update_http
from mcpproxy.judge.observer import http_judge as judge
from mcpproxy.judge.ruleset import catalogue
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
from mcpproxy.judge.session.redirects import request_target
from mcpproxy.protocol.jsontext import several_texts
from mcpproxy.protocol.mirrors import read_mirrors

CATALOGUE: Final = catalogue.load()

LIST: Final = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
JSON_POST: Final = (("Content-Type", "application/json"), ("Content-Length", "2"))
SSE: Final = (("Content-Type", "text/event-stream"),)


def judged(*events: Event) -> list[Finding]:
    observer = Observer(CATALOGUE)
    return [finding for event in events for finding in observer.observe(event)]


@pytest.mark.parametrize(
    ("uri", "base", "target"),
    [
        ("/messages?s=1", "/sse", "/messages?s=1"),
        ("messages?s=1", "/mcp/sse", "/mcp/messages?s=1"),
        ("?s=1", "/mcp/sse", "/mcp/sse?s=1"),
        ("../messages", "/mcp/sse", "/messages"),
        ("http://127.0.0.1:3000/messages?s=1", "/sse", "/messages?s=1"),
        ("//127.0.0.1:3000/messages", "/sse", "/messages"),
        ("messages", "http://files.example/mcp/sse", "/mcp/messages"),
        ("http://[", "/sse", "http://["),
    ],
)
def test_an_endpoint_names_where_to_post(uri: str, base: str, target: str) -> None:
    assert request_target(uri, base) == target


@pytest.mark.parametrize(
    ("raw", "several"),
    [
        (b'{"a": 1}', False),
        (b'{"a": 1}\n{"b": 2}', True),
        (b'{"a": 1} {"b": 2} ', True),
        (b'{"a": 1} 2', False),
        (b'{"a": 1} {"b": ', False),
        (b'[{"a": 1}] {}', False),
        (b'{"a": "\xff"} {}', False),
        (b"", False),
    ],
)
def test_several_json_texts_in_one_body(raw: bytes, several: bool) -> None:
    assert several_texts(raw) == several


def test_what_is_no_schema_has_no_annotations() -> None:
    assert read_mirrors(True).headers == ()
    assert read_mirrors({"x-mcp-header": "Root"}).faults


def test_events_of_exchanges_that_nobody_began_are_let_pass() -> None:
    assert (
        judged(
            ResponseHead(1, 7, 1, 200, SSE),
            Frame(2, "server", b"{}", exchange=7, connection=1),
            ExchangeEnd(7, 1),
            Opaque(1, "client", 10, "upgrade"),
            Note(1, "rewrote-head", "Host"),
            Gap("the disk was full"),
            Close("exited", 0),
        )
        == []
    )


def test_a_check_reports_a_cancelled_initialize_and_the_judge_remembers_it() -> None:
    without = [
        replace(family, http=tuple(row for row in family.http if row.check is not initialize_cancelled))
        for family in FAMILIES
    ]
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "a", "version": "1"},
    }
    opening = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    leaving = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 0}}
    seconds = 1_000_000_000
    observer = Observer(CATALOGUE, Dispatch(without))
    found: list[Finding] = []
    for event in (
        RequestHead(1, 1, 1, "POST", "/mcp", JSON_POST),
        Frame(2, "client", json.dumps(opening).encode(), 0, exchange=1, connection=1),
        RequestHead(3, 2, 2, "POST", "/mcp", JSON_POST, observed_at_ns=40 * seconds),
        Frame(4, "client", json.dumps(leaving).encode(), 40 * seconds, exchange=2, connection=2),
        ExchangeEnd(1, 1, cut=True, by="client", observed_at_ns=90 * seconds, left_ns=90 * seconds),
    ):
        found += observer.observe(event)
    (unanswered,) = [finding for finding in found if finding.rule == "SEQ-001"]
    assert "sent 40 s before the client cancelled it" in unanswered.message


def test_only_so_many_things_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (judge, update_http):
        monkeypatch.setattr(module, "MAX_REMEMBERED", 2)
    observer = Observer(CATALOGUE)
    observer.observe(RequestHead(1, 1, 1, "GET", "/mcp", (("Mcp-Session-Id", "from-before"),)))
    observer.observe(ResponseHead(2, 1, 1, 200, SSE))
    found: list[Finding] = []
    for n in ("a", "b", "c", "a"):
        data = json.dumps(
            {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": len(found)}}
        )
        event = SseEvent(b"data: ", b"\n\n", n)
        found += observer.observe(Frame(3, "server", data.encode(), exchange=1, connection=1, event=event))
    assert {finding.rule for finding in found} <= {"RPC-023"}


HEADERS: Final = st.lists(
    st.tuples(
        st.sampled_from(
            ["Accept", "Content-Type", "Mcp-Session-Id", "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name",
             "Mcp-Param-A", "Last-Event-ID", "Authorization", "WWW-Authenticate", "Origin", "Host", "Date",
             "Content-Length"]
        ),
        st.sampled_from(
            ["", "application/json", "text/event-stream", "s-1", "s-2", "2025-11-25", "2026-07-28", "1", "0",
             "Bearer a.b.c", 'Bearer scope="a', "https://a.example", "localhost:1", "=?base64?*?=", ",;q=0,"]
        ),
    ),
    max_size=5,
).map(tuple)  # fmt: skip

META: Final = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}

MESSAGES: Final[list[object]] = [
    LIST,
    [LIST, LIST],
    {**LIST, "params": {"_meta": META}},
    {**LIST, "method": "tools/call", "params": {"_meta": META, "name": "add"}},
    {**LIST, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1}},
    {"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": "2025-11-25"}},
    {"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "add", "inputSchema": {}}]}},
    {"jsonrpc": "2.0", "id": 1, "error": {"code": -32020, "message": ""}},
    {"jsonrpc": "2.0", "id": None, "error": {"code": -32022, "message": "", "data": []}},
    {"authorization_servers": {}},
]

BODIES: Final = st.sampled_from(
    [b"", b" ", b"[]", b"no json", b"{}{}", *(json.dumps(message).encode() for message in MESSAGES)]
)

N: Final = st.integers(1, 3)

EVENTS: Final[st.SearchStrategy[Event]] = st.one_of(
    st.builds(
        RequestHead,
        st.just(1),
        N,
        N,
        st.sampled_from(["POST", "GET", "DELETE", "OPTIONS", "PUT"]),
        st.sampled_from(
            ["/mcp", "/sse", "/m?access_token=1", "/.well-known/oauth-protected-resource", "http://a/"]
        ),
        HEADERS,
        st.booleans(),
    ),
    st.builds(
        ResponseHead,
        st.just(2),
        N,
        N,
        st.sampled_from([100, 200, 202, 301, 400, 401, 403, 404, 500]),
        HEADERS,
    ),
    st.builds(
        Frame,
        st.just(3),
        st.sampled_from(["client", "server"]),
        BODIES,
        exchange=N,
        connection=N,
        event=st.none()
        | st.builds(
            SseEvent,
            st.just(b""),
            st.just(b""),
            st.none() | st.sampled_from(["", "1", "2"]),
            st.none() | st.sampled_from(["endpoint", "message", "other"]),
            st.none() | st.integers(0, 10),
        ),
    ),
    st.builds(ExchangeEnd, N, N, st.booleans(), st.sampled_from(["client", "server", "proxy", None])),
    st.just(Gap("the disk was full")),
)


@given(st.lists(EVENTS, max_size=40))
def test_no_order_of_events_upsets_the_judge(events: list[Event]) -> None:
    for finding in judged(*events, Close("exited", 0, observed_at_ns=10**12)):
        assert finding.severity in ("error", "warning", "info")
        assert finding.source.startswith("https://")


def test_an_answer_in_pieces_is_not_empty() -> None:
    headers = (("Content-Type", "application/json"), ("Content-Length", "9"))
    accepts = (*headers, ("Accept", "application/json, text/event-stream"))
    asked = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'

    def exchange(*answer: Frame) -> list[str]:
        found = judged(
            RequestHead(1, 1, 1, "POST", "/mcp", accepts, endpoint=True),
            Frame(2, "client", asked, exchange=1, connection=1),
            ResponseHead(3, 1, 1, 200, headers),
            *answer,
            ExchangeEnd(1, 1),
        )
        return [each.rule for each in found if each.rule == "HTTP-011"]

    assert exchange() == ["HTTP-011"]
    piece = Frame(4, "server", b'{"jsonrpc":"2.0","id":1,"res', continues=True, exchange=1, connection=1)
    assert exchange(piece, Frame(5, "server", b'ult":{"tools":[]}}', exchange=1, connection=1)) == []


def test_a_body_in_pieces_is_not_judged_and_the_next_one_is() -> None:
    observer = Observer(catalogue.load(), joined_late=True)
    headers = (("Content-Type", "application/json"), ("Content-Length", "9"))
    accepts = (*headers, ("Accept", "application/json, text/event-stream"), ("Mcp-Session-Id", "s"))
    pieces = (b'{"jsonrpc":"2.0","id":1,', b'"method":"tools/list"}')
    found: list[Finding] = []
    for event in (
        RequestHead(1, 1, 1, "POST", "/mcp", accepts),
        Frame(2, "client", pieces[0], continues=True, exchange=1, connection=1),
        Frame(3, "client", pieces[1], exchange=1, connection=1),
        ResponseHead(4, 1, 1, 200, headers),
        Frame(5, "server", b'{"jsonrpc":"2.0","id":1,"res', continues=True, exchange=1, connection=1),
        Frame(6, "server", b'ult":{"tools":[]}}', exchange=1, connection=1),
        ExchangeEnd(1, 1),
        RequestHead(7, 2, 1, "POST", "/mcp", accepts),
        Frame(8, "client", b"not json", exchange=2, connection=1),
    ):
        found += [f for f in observer.observe(event) if f.severity == "error"]
    assert [(f.rule, f.frame) for f in found] == [("RPC-001", 8)]


def test_an_answer_in_a_coding_that_is_not_decoded_accuses_nobody() -> None:
    headers = (("Content-Type", "application/json"), ("Content-Encoding", "br"))
    accepts = (
        ("Content-Type", "application/json"),
        ("Content-Length", "9"),
        ("Accept", "application/json, text/event-stream"),
    )
    hello = b'{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"a","version":"1"}}'
    said = (
        b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":%b}' % hello,
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
    )
    events: list[Event] = []
    for number, message in enumerate(said, start=1):
        events += [
            RequestHead(0, number, 1, "POST", "/mcp", accepts, endpoint=True),
            Frame(0, "client", message, exchange=number, connection=1),
        ]
        if b'"id"' in message:
            piece = Frame(0, "server", b"\x0b\x02\x80", continues=True, exchange=number, connection=1)
            events += [ResponseHead(0, number, 1, 200, headers), piece]
        else:
            events.append(ResponseHead(0, number, 1, 202, ()))
        events.append(ExchangeEnd(number, 1))
    for seq, event in enumerate(events, start=1):
        if not isinstance(event, ExchangeEnd):
            object.__setattr__(event, "seq", seq)
    assert [found.message for found in judged(*events)] == []
