"""The HTTP relay's data path: the bytes arrive as they were sent, except for documented changes to heads."""

from pathlib import Path

import pytest

from mcpproxy.record.relay import journal
from tests.relay.http_peers import OK, SWITCHING, UPGRADE, Proxy, Upstream, kinds, request, stream


def heads(upstream: Upstream) -> dict[str, tuple[bytes, bytes]]:
    host = b"Host: 127.0.0.1:%d" % upstream.port
    return {
        "order, case, duplicates, white space": (
            b"GET /mcp?a=1&a=%20 HTTP/1.1\r\nx-B: 1\r\nhOST:localhost:1\r\nX-b:  2\t\r\n"
            b"X-b:2\r\nX-empty:\r\nX-Bytes: \xc3\xa4\xff\r\n\r\n",
            b"GET /mcp?a=1&a=%20 HTTP/1.1\r\nx-B: 1\r\nhO"
            + b"ST: 127.0.0.1:%d\r\nX-b:  2\t\r\nX-b:2\r\nX-empty:\r\nX-Bytes: \xc3\xa4\xff\r\n\r\n"
            % upstream.port,
        ),
        "what is said about the connection": (
            b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: keep-alive, TE\r\n"
            b"Keep-Alive: timeout=5\r\nTE: trailers\r\n\r\n",
            b"GET / HTTP/1.1\r\n"
            + host
            + b"\r\nConnection: keep-alive, TE\r\nKeep-Alive: timeout=5\r\nTE: trailers\r\n\r\n",
        ),
        "fields that end here": (
            b"GET / HTTP/1.1\r\nX-Hop: 1\r\nHost: 127.0.0.1\r\nConnection: close, x-hop\r\n\r\n",
            b"GET / HTTP/1.1\r\n" + host + b"\r\nConnection: close\r\n\r\n",
        ),
        "a URL as target": (
            b"GET http://127.0.0.1:8/a?b HTTP/1.1\r\nHost: 127.0.0.1:8\r\n\r\n",
            b"GET /a?b HTTP/1.1\r\n" + host + b"\r\n\r\n",
        ),
        "HTTP/1.0 without Host": (b"GET / HTTP/1.0\r\n\r\n", b"GET / HTTP/1.0\r\n\r\n"),
        "a line end left over": (
            b"\r\nGET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
            b"GET / HTTP/1.1\r\n" + host + b"\r\n\r\n",
        ),
        "an unknown method": (
            b"PURGE /x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
            b"PURGE /x HTTP/1.1\r\n" + host + b"\r\n\r\n",
        ),
        "OPTIONS *": (
            b"OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
            b"OPTIONS * HTTP/1.1\r\n" + host + b"\r\n\r\n",
        ),
    }


def test_heads(upstream: Upstream, proxy: Proxy) -> None:
    cases = heads(upstream)
    for name, (sent, expected) in cases.items():
        client = proxy.connect()
        client.send(sent)
        server = upstream.accept()
        assert server.read_head() == expected, name
        server.send(OK)
        assert client.read(len(OK)) == OK
    records = proxy.stop()
    for number, (sent, _) in enumerate(cases.values(), start=1):
        assert stream(records, journal.CLIENT, number) == sent
        assert stream(records, journal.SERVER, number) == OK


ANSWERS: dict[str, bytes] = {
    "nothing strange": OK,
    "odd head": b"HTTP/1.1 200\r\nx-a:1\r\nX-A: 2\r\n folded\r\nContent-Length:0\r\n\r\n",
    "bare line feeds": b"HTTP/1.0 200 OK\nA: b\n\nbody",
    "interim answers": b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + OK,
    "204": b"HTTP/1.1 204 No Content\r\n\r\n",
    "304": b"HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\n\r\n",
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nX-T: 1\r\n\r\n",
    "SSE": b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    b": c\r\n\r\nid: 1\ndata: a\ndata: b\n\nretry: 3\r\r",
    "gzip": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 12\r\n\r\n"
    b"\x1f\x8b\x08\x00\x00\xff\r\n\r\n\x00\x01",
    "no HTTP at all": b"220 mail.example ESMTP\r\n",
    "every byte": bytes(range(256)),
}


@pytest.mark.parametrize("connection", ["GET", "HEAD"])
def test_answers_pass_as_they_come(connection: str, upstream: Upstream, proxy: Proxy) -> None:
    for answer in ANSWERS.values():
        client = proxy.connect()
        client.send(request(line=connection.encode() + b" /mcp HTTP/1.1"))
        server = upstream.accept()
        server.read_head()
        server.send(answer)
        server.end()
        assert client.rest() == answer
    records = proxy.stop()
    for number, answer in enumerate(ANSWERS.values(), start=1):
        assert stream(records, journal.SERVER, number) == answer


CHUNKED = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_every_split_of_two_requests(upstream: Upstream, proxy: Proxy) -> None:
    """A head is forwarded when it is complete, a body as it comes, and the next head after it."""
    chunks = b'4;a="b"\r\n\r\n\r\n\r\n5\r\nhello\r\n0\r\nX-T: 1\r\n\r\n'
    sent = CHUNKED + chunks + b"GET /b HTTP/1.1\r\nHost: localhost\r\n\r\n"
    host = b"Host: 127.0.0.1:%d\r\n" % upstream.port
    expected = sent.replace(b"Host: 127.0.0.1\r\n", host).replace(b"Host: localhost\r\n", host)
    for at in range(1, len(sent)):
        client = proxy.connect()
        client.send(sent[:at])
        if at >= len(CHUNKED):
            server = upstream.accept()
            server.read_head()
            client.send(sent[at:])
            got = server.read(len(expected) - expected.index(chunks))
            assert got == expected[expected.index(chunks) :]
        else:
            client.send(sent[at:])
            server = upstream.accept()
            assert server.read(len(expected)) == expected
        client.close()
        server.close()
    records = proxy.stop()
    for number in range(1, len(sent)):
        assert stream(records, journal.CLIENT, number) == sent


def test_a_head_byte_by_byte_goes_on_when_it_is_whole(upstream: Upstream, proxy: Proxy) -> None:
    client = proxy.connect()
    sent = request(b"hello")
    for byte in sent[:-6]:
        client.send(bytes((byte,)))
    assert upstream.is_left_alone()
    client.send(sent[-6:])
    server = upstream.accept()
    assert server.read_head().startswith(b"POST /mcp HTTP/1.1\r\n")
    assert server.read(5) == b"hello"
    records = proxy.stop()
    assert stream(records, journal.CLIENT) == sent


def test_pipelined_requests_share_a_connection(upstream: Upstream, proxy: Proxy) -> None:
    client = proxy.connect()
    client.send(request(b"1") + request(b"22") + CHUNKED + b"0\r\n\r\n" + request(b"333"))
    server = upstream.accept()
    for body in (b"1", b"22", b"0\r\n\r\n", b"333"):
        server.read_head()
        assert server.read(len(body)) == body
    server.send(OK * 4)
    assert client.read(4 * len(OK)) == 4 * OK
    records = proxy.stop()
    assert {number for _, number, _ in records if number} == {1}


def test_a_connection_is_used_again(upstream: Upstream, proxy: Proxy) -> None:
    client = proxy.connect()
    client.send(request(b"first"))
    server = upstream.accept()
    for body in (b"first", b"second", b"third"):
        server.read_head()
        assert server.read(len(body)) == body
        server.send(OK)
        assert client.read(len(OK)) == OK
        if body != b"third":
            client.send(request(b"second" if body == b"first" else b"third"))
    assert upstream.is_left_alone()
    records = proxy.stop()
    found = [kind for kind, number, _ in records if number]
    assert found[:7] == [journal.CONNECT] + [journal.CLIENT, journal.SERVER] * 3


def test_continue_is_left_to_the_server(upstream: Upstream, proxy: Proxy) -> None:
    client = proxy.connect()
    whole = request(b"hello", b"Expect: 100-continue")
    client.send(whole[:-5])
    server = upstream.accept()
    assert b"Expect: 100-continue\r\n" in server.read_head()
    server.send(b"HTTP/1.1 100 Continue\r\n\r\n")
    assert client.read_head() == b"HTTP/1.1 100 Continue\r\n\r\n"
    client.send(b"hello")
    assert server.read(5) == b"hello"
    server.send(OK)
    assert client.read(len(OK)) == OK


def test_an_answer_before_the_body_is_over(upstream: Upstream, proxy: Proxy) -> None:
    answer = b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n"
    client = proxy.connect()
    client.send(request(b"x" * 1000)[:-900])
    server = upstream.accept()
    server.read_head()
    server.read(100)
    server.send(answer)
    assert client.read(len(answer)) == answer
    client.send(b"x" * 900)
    assert server.read(900) == b"x" * 900


def test_after_an_upgrade_bytes_are_just_bytes(upstream: Upstream, proxy: Proxy) -> None:
    client = proxy.connect()
    client.send(UPGRADE + b"\x81\x00early")
    server = upstream.accept()
    assert b"Upgrade: websocket\r\n" in server.read_head()
    server.send(SWITCHING[:20])
    assert client.read(20) == SWITCHING[:20]
    server.send(SWITCHING[20:] + b"\x82\x00")
    assert client.read(len(SWITCHING) - 20 + 2) == SWITCHING[20:] + b"\x82\x00"
    assert server.read(7) == b"\x81\x00early"
    client.send(b"no\nhead\x00\r\n\r\n")
    assert server.read(12) == b"no\nhead\x00\r\n\r\n"
    client.end()
    assert server.rest() == b""
    records = proxy.stop()
    assert kinds(records)[:6] == [
        journal.CONNECT,
        journal.CLIENT,
        journal.SERVER,
        journal.OPAQUE,
        journal.CLIENT,
        journal.CLIENT_EOF,
    ]


def test_what_comes_with_the_answer_to_an_upgrade_is_sent_after_what_came_before(
    upstream: Upstream, tmp_path: Path
) -> None:
    """One turn of the loop handles both. The first bytes do not fit, so the others must wait."""
    with Proxy(str(tmp_path / "t"), upstream.origin, fault="short sends") as proxy:
        early, late = b"early" * 1000, b"late" * 1000
        client = proxy.connect()
        client.send(UPGRADE + early)
        server = upstream.accept()
        server.read_head()
        with proxy.stopped():
            server.send(SWITCHING)
            client.send(late)
        assert server.read(9000) == early + late


def test_after_an_upgrade_that_was_declined_http_goes_on(upstream: Upstream, proxy: Proxy) -> None:
    client = proxy.connect()
    client.send(UPGRADE + request(b"next"))
    server = upstream.accept()
    server.read_head()
    server.send(b"HTTP/1.1 103 Early Hints\r\n\r\n" + OK)
    assert client.read_head().startswith(b"HTTP/1.1 103")
    assert client.read(len(OK)) == OK
    assert b"Host: 127.0.0.1:%d\r\n" % upstream.port in server.read_head()
    assert server.read(4) == b"next"
    assert journal.OPAQUE not in kinds(proxy.stop())


def test_the_first_event_arrives_before_the_second_is_sent(upstream: Upstream, proxy: Proxy) -> None:
    client = proxy.connect()
    client.send(request(b"", b"Accept: text/event-stream", line=b"GET /mcp HTTP/1.1"))
    server = upstream.accept()
    server.read_head()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    server.send(head)
    assert client.read(len(head)) == head
    for number in range(50):
        event = b"id: %d\ndata: {}\n\n" % number
        chunk = b"%x\r\n%s\r\n" % (len(event), event)
        server.send(chunk)
        assert client.read(len(chunk)) == chunk


def test_the_path_of_the_endpoint_is_mapped(upstream: Upstream, tmp_path: Path) -> None:
    paths = {
        b"/mcp": b"/api/v1?key=k",
        b"/mcp?a=b": b"/api/v1?key=k&a=b",
        b"/api/v1": b"/api/v1?key=k",
        b"/mcp/more": b"/mcp/more",
        b"/.well-known/oauth-protected-resource/mcp": b"/.well-known/oauth-protected-resource/mcp",
        b"/register": b"/register",
    }
    with Proxy(str(tmp_path / "t"), upstream.origin + "/api/v1?key=k") as proxy:
        client = proxy.connect()
        for number, (sent, expected) in enumerate(paths.items()):
            client.send(request(line=b"GET %s HTTP/1.1" % sent))
            server = upstream.accept() if not number else upstream.peers[0]
            assert server.read_head().startswith(b"GET %s HTTP/1.1\r\n" % expected)
            server.send(OK)
            assert client.read(len(OK)) == OK
        assert "key" not in proxy.greeting


def test_no_answer_is_journaled_before_its_question(upstream: Upstream, proxy: Proxy) -> None:
    client = proxy.connect()
    for number in range(500):
        client.send(request(b"%d" % number))
        server = upstream.peers[0] if upstream.peers else upstream.accept()
        server.read_head()
        server.read(len(b"%d" % number))
        server.send(OK)
        assert client.read(len(OK)) == OK
    found = [kind for kind, number, _ in proxy.stop() if number]
    assert found[: 1 + 2 * 500] == [journal.CONNECT] + [journal.CLIENT, journal.SERVER] * 500


@pytest.mark.parametrize("loop", ["selectors"], indirect=True)
def test_without_epoll(upstream: Upstream, tmp_path: Path) -> None:
    """Requests, a large body under back-pressure, an end: on systems that have only the module selectors."""
    body = b"b" * (8 << 20)
    with Proxy(str(tmp_path / "t"), upstream.origin) as proxy:
        client = proxy.connect()
        sending = client.send_aside(request(body))
        server = upstream.accept()
        server.read_head()
        assert server.read(len(body)) == body
        sending.join()
        sending = server.send_aside(OK + body)
        assert client.read(len(OK + body)) == OK + body
        sending.join()
        server.end()
        assert client.rest() == b""
        client.close()
        assert server.rest() == b""
        assert stream(proxy.stop(), journal.CLIENT) == request(body)


def test_a_connection_without_bytes_leaves_no_record(upstream: Upstream, proxy: Proxy) -> None:
    client = proxy.connect()
    client.end()
    assert client.rest() == b""
    assert upstream.is_left_alone()
    assert [kind for kind, _, _ in proxy.stop()] == [journal.SIGNAL, journal.EXIT]
