"""Addresses in answers: which are rewritten and which are not, for every split of the bytes."""

from pathlib import Path

import pytest

from mcpproxy.record.relay import journal
from mcpproxy.record.relay.http.guard import Guard
from mcpproxy.record.relay.http.resolve import Upstream
from mcpproxy.record.relay.http.rewrite import Rewriter, Rewriting
from mcpproxy.record.relay.http.route import Reverse, Route
from tests.relay import http_peers
from tests.relay.http_peers import Proxy, kinds, request, stream

UPSTREAM = Upstream("127.0.0.1", 9000, path="/api/mcp")
ROUTER = Reverse(UPSTREAM, "/mcp", Guard(True, [], []))

STREAM = b"GET /sse HTTP/1.1\r\nHost: localhost:8765\r\nAccept: text/event-stream\r\n\r\n"
POST = b"POST /mcp HTTP/1.1\r\nHost: localhost:8765\r\nContent-Length: 0\r\n\r\n"
METADATA = b"GET /.well-known/oauth-protected-resource HTTP/1.1\r\nHost: localhost:8765\r\n\r\n"
AUTHORIZATION = METADATA.replace(b"protected-resource", b"authorization-server")
OPENID = METADATA.replace(b"oauth-protected-resource", b"openid-configuration")
HEAD = METADATA.replace(b"GET", b"HEAD")

OWN_ISSUER = (
    b'{"issuer": "http://127.0.0.1:9000", "authorization_endpoint": "http://127.0.0.1:9000/authorize", '
    b'"token_endpoint": "http://127.0.0.1:9000/token?a=b", "jwks_uri": "http://127.0.0.1:9000/jwks", '
    b'"registration_endpoint": "http://127.0.0.1:9000/register", "service_documentation": "https://x.example/"}'
)

SSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def chunked(*contents: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(content), content) for content in contents)


def sized(document: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nX: y\r\n\r\n" % len(document) + document


# Requests, whether --rewrite-origin is on, what the server says, what of it is replaced (theirs, ours).
CASES: dict[str, tuple[list[bytes], bool, bytes, list[tuple[bytes, bytes]]]] = {
    "endpoint event": (
        [STREAM],
        False,
        SSE
        + b"\r\nevent: endpoint\ndata: http://127.0.0.1:9000/messages?s=1\n\nevent: message\ndata: http://127.0.0.1:9000/\n\n",
        [(b"data: http://127.0.0.1:9000/messages", b"data: http://localhost:8765/messages")],
    ),
    "endpoint event in a chunk": (
        [STREAM],
        False,
        SSE
        + b"Transfer-Encoding: chunked\r\n\r\n"
        + chunked(
            b"event: endpoint\r\ndata: http://127.0.0.1:9000/m\r\n\r\n",
            b"event: x\ndata: http://127.0.0.1:9000\n\n",
        ),
        [
            (
                chunked(b"event: endpoint\r\ndata: http://127.0.0.1:9000/m\r\n\r\n"),
                chunked(b"event: endpoint\r\ndata: http://localhost:8765/m\r\n\r\n"),
            )
        ],
    ),
    "endpoint event over two chunks, after a comment": (
        [STREAM],
        False,
        SSE
        + b"Transfer-Encoding: chunked\r\n\r\n"
        + chunked(b": hello\n\n", b"event: endpoint\n", b"data: http://localhost:9000/m\n\n"),
        [
            (
                chunked(b"event: endpoint\n", b"data: http://localhost:9000/m\n\n"),
                chunked(b"event: endpoint\ndata: http://localhost:8765/m\n\n"),
            )
        ],
    ),
    "endpoint event that is a path": (
        [STREAM],
        False,
        SSE + b"\r\nevent: endpoint\ndata: /messages?s=1\n\n",
        [],
    ),
    "endpoint event of another server": (
        [STREAM],
        False,
        SSE + b"\r\nevent: endpoint\ndata: http://127.0.0.1:90001/m\n\n",
        [],
    ),
    "other events": ([STREAM], False, SSE + b"\r\nid: 1\ndata: http://127.0.0.1:9000/m\n\n: c\n\n", []),
    # The lines of a comment end in one way only, or each doubles the time until the event is let through.
    "another event after a long comment": (
        [STREAM],
        False,
        SSE + b"\r\n" + b": hello\r\n" * 40 + b"data: 1\r\n\r\n",
        [],
    ),
    "endpoint event in a compressed stream": (
        [STREAM],
        False,
        SSE + b"Content-Encoding: gzip\r\n\r\nevent: endpoint\ndata: http://127.0.0.1:9000/m\n\n",
        [],
    ),
    "no stream": ([STREAM], False, b"HTTP/1.1 405 No\r\nContent-Length: 2\r\n\r\nno" + OK, []),
    "no HTTP": ([STREAM], False, b"event: endpoint\ndata: http://127.0.0.1:9000/m\n\n", []),
    "challenge": (
        [POST, POST],
        True,
        b'HTTP/1.1 401 No\r\nwww-authenticate: Bearer resource_metadata="http://127.0.0.1:9000/.well-known/x"\r\n'
        b"X-Url: http://127.0.0.1:9000/\r\nContent-Length: 0\r\n\r\n" + OK,
        [(b'metadata="http://127.0.0.1:9000/', b'metadata="http://localhost:8765/')],
    ),
    "challenge, not asked for": (
        [POST],
        False,
        b'HTTP/1.1 401 No\r\nWWW-Authenticate: Bearer resource_metadata="http://127.0.0.1:9000/"\r\n'
        b"Content-Length: 0\r\n\r\n",
        [],
    ),
    "metadata": (
        [METADATA, POST],
        True,
        sized(
            b'{"resource": "http://127.0.0.1:9000/api/mcp", "authorization_servers": ["https://auth.example/"]}'
        )
        + OK,
        [
            (
                sized(
                    b'{"resource": "http://127.0.0.1:9000/api/mcp", "authorization_servers": ["https://auth.example/"]}'
                ),
                sized(
                    b'{"resource": "http://localhost:8765/mcp", "authorization_servers": ["https://auth.example/"]}'
                ).replace(b"content-length", b"Content-Length"),
            )
        ],
    ),
    "metadata in chunks": (
        [METADATA, POST],
        True,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        + chunked(b'{"resource": "http://127.0', b'.0.1:9000/api/mcp2"}')
        + b"0\r\nX-T: 1\r\n\r\n"
        + OK,
        [
            (
                chunked(b'{"resource": "http://127.0', b'.0.1:9000/api/mcp2"}'),
                chunked(b'{"resource": "http://localhost:8765/api/mcp2"}'),
            )
        ],
    ),
    "metadata to the end": (
        [METADATA],
        True,
        b'HTTP/1.0 200 OK\r\n\r\n{"resource": "http://127.0.0.1:9000"}',
        [],  # how long it is nobody knows: it passes
    ),
    "metadata of the authorization server": (
        [AUTHORIZATION, POST],
        True,
        sized(OWN_ISSUER) + OK,
        [
            (
                sized(OWN_ISSUER),
                sized(OWN_ISSUER.replace(b"//127.0.0.1:9000", b"//localhost:8765")).replace(
                    b"content-length", b"Content-Length"
                ),
            )
        ],
    ),
    "metadata of the authorization server, not asked for": ([AUTHORIZATION], False, sized(OWN_ISSUER), []),
    "metadata of an OpenID provider below a path": (
        [OPENID.replace(b"GET /", b"GET /tenant/")],
        True,
        sized(b'{"issuer": "http://127.0.0.1:9000/tenant"}'),
        [
            (
                sized(b'{"issuer": "http://127.0.0.1:9000/tenant"}'),
                sized(b'{"issuer": "http://localhost:8765/tenant"}').replace(
                    b"content-length", b"Content-Length"
                ),
            )
        ],
    ),
    "metadata whose slashes are escaped": (
        [AUTHORIZATION.replace(b" HTTP", b"/api/mcp?x HTTP")],
        True,
        sized(rb'{"issuer": "http:\/\/127.0.0.1:9000\/api\/mcp", "x": "http:\/\/127.0.0.1:90001\/"}'),
        [
            (
                sized(rb'{"issuer": "http:\/\/127.0.0.1:9000\/api\/mcp", "x": "http:\/\/127.0.0.1:90001\/"}'),
                sized(
                    rb'{"issuer": "http:\/\/localhost:8765\/mcp", "x": "http:\/\/127.0.0.1:90001\/"}'
                ).replace(b"content-length", b"Content-Length"),
            )
        ],
    ),
    "what only looks like metadata": (
        [
            AUTHORIZATION.replace(b"server HTTP", b"servers HTTP"),
            AUTHORIZATION.replace(b"GET /", b"GET /x?/"),
        ],
        True,
        sized(OWN_ISSUER) * 2,
        [],
    ),
    "other documents": ([POST], True, sized(b'{"url": "http://127.0.0.1:9000/"}'), []),
    "answers without bodies": (
        [HEAD, POST, POST],
        True,
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n"
        b'HTTP/1.1 401 No\r\nWWW-Authenticate: x="http://127.0.0.1:9000"\r\nContent-Length: 0\r\n\r\n',
        [(b'x="http://127.0.0.1:9000"', b'x="http://localhost:8765"')],
    ),
    "chunks that are none": (
        [POST],
        True,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhttp://127.0.0.1:9000/",
        [],
    ),
    "a redirect": (
        [POST],
        False,
        b"HTTP/1.1 307 Moved\r\nlocation:  HTTP://localhost:9000/api/mcp/?next=http://127.0.0.1:9000/\r\n"
        b"X-Url: http://127.0.0.1:9000/\r\nContent-Length: 0\r\n\r\n",
        [(b"location:  HTTP://localhost:9000/api", b"location:  http://localhost:8765/api")],
    ),
    "a redirect without a scheme": (
        [POST],
        False,
        b"HTTP/1.1 308 Moved\r\nLocation: //127.0.0.1:9000\r\nContent-Length: 0\r\n\r\n",
        [(b"Location: //127.0.0.1:9000", b"Location: //localhost:8765")],
    ),
    "links and the place of the content, also before the answer": (
        [POST],
        False,
        b"HTTP/1.1 103 Early Hints\r\nLink: <http://127.0.0.1:9000/a>; rel=x\r\n\r\n"
        b"HTTP/1.1 200 OK\r\nContent-Location: http://[::1]:9000/api/mcp\r\n"
        b"link: <http://127.0.0.1:9000/b>; title=http://127.0.0.1:9000,<http://x>, <//localhost:9000>\r\n"
        b"Content-Length: 2\r\n\r\nok",
        [
            (b"<http://127.0.0.1:9000/a>", b"<http://localhost:8765/a>"),
            (b"http://[::1]:9000/api/mcp", b"http://localhost:8765/api/mcp"),
            (b"<http://127.0.0.1:9000/b>", b"<http://localhost:8765/b>"),
            (b"<//localhost:9000>", b"<//localhost:8765>"),
        ],
    ),
    **{
        f"a redirect to {location.decode()}": (
            [POST],
            False,
            b"HTTP/1.1 302 Found\r\nLocation: " + location + b"\r\nContent-Length: 0\r\n\r\n",
            [],
        )
        for location in (
            *(b"/api/mcp/", b"https://127.0.0.1:9000/", b"http://127.0.0.1:90001/", b"http://127.0.0.1/"),
            *(b"http://other.example:9000/", b"http://127.0.0.1:9000@other.example/"),
            *(b"http://other.example/?next=http://127.0.0.1:9000/", b"x http://127.0.0.1:9000/"),
        )
    },
    "an upgrade": (
        [POST],
        True,
        b"HTTP/1.1 101 OK\r\n\r\nHTTP/1.1 401 No\r\nWWW-Authenticate: http://127.0.0.1:9000\r\n\r\n",
        [],
    ),
}


def rewriter(requests: list[bytes], is_full: bool, notes: list[str]) -> Rewriter:
    made = Rewriting(UPSTREAM, "/mcp", "http", is_full=is_full).rewriter(notes.append)
    for one in requests:
        made.expect(ROUTER.route(one))
    return made


@pytest.mark.parametrize(("requests", "is_full", "said", "replaced"), CASES.values(), ids=CASES)
def test_rewritten_however_it_is_cut(
    requests: list[bytes], is_full: bool, said: bytes, replaced: list[tuple[bytes, bytes]]
) -> None:
    expected = said
    for theirs, ours in replaced:
        assert expected.count(theirs) == 1
        expected = expected.replace(theirs, ours)
    for size in (1, 2, 3, 7, 50, len(said)):
        notes: list[str] = []
        made = rewriter(requests, is_full, notes)
        heard = b"".join(made.feed(said[at : at + size]) for at in range(0, len(said), size)) + made.end()
        assert dechunked(heard) == dechunked(expected)
        assert bool(notes) is bool(replaced)


def dechunked(answer: bytes) -> bytes:
    """What is left when it does not matter which chunks carry a stream."""
    if b"Transfer-Encoding" not in answer:
        return answer
    head, _, body = answer.partition(b"\r\n\r\n")
    content = b""
    while body[:1] not in (b"0", b"z", b""):
        size, _, body = body.partition(b"\r\n")
        content, body = content + body[: int(size, 16)], body[int(size, 16) + 2 :]
    return head + content + body


def test_events_are_not_held_back() -> None:
    """What is not an endpoint event is forwarded immediately, complete or not."""
    made = rewriter([STREAM], is_full=False, notes=[])
    assert made.feed(SSE + b"\r\n") == SSE + b"\r\n"
    assert made.feed(b": ping\n\n") == b": ping\n\n"
    assert made.feed(b"data: 1\n\ndata: half") == b"data: 1\n\ndata: half"
    assert made.is_done


@pytest.mark.parametrize("body", [b"zz\r\n{}", b"2;\x01\r\n{}", b"2\r\n{}xx", b";" * 5000, b"2\n{}\n0\n\n"])
@pytest.mark.parametrize(("asked", "head"), [(METADATA, b"HTTP/1.1 200 OK\r\n"), (STREAM, SSE)])
def test_chunks_that_cannot_be_read_are_not_held_back(asked: bytes, head: bytes, body: bytes) -> None:
    notes: list[str] = []
    made = rewriter([asked], True, notes)
    said = head + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(b": c\n\n") + body + b"\r\n"
    assert made.feed(said) == said
    assert notes == []


def test_a_route_knows_whether_a_stream_was_asked_for() -> None:
    def route(raw: bytes) -> Route:
        return ROUTER.route(raw)

    assert route(STREAM).wants_stream
    assert not route(POST).wants_stream
    assert not route(STREAM.replace(b"Accept", b"Mcp-Session-Id: 1\r\nAccept")).wants_stream


def test_the_endpoint_event_on_the_wire_and_in_the_journal(
    upstream: http_peers.Upstream, tmp_path: Path
) -> None:
    with Proxy(str(tmp_path / "t"), upstream.origin) as proxy:
        client = proxy.connect()
        client.send(request(b"", b"Accept: text/event-stream", line=b"GET /sse HTTP/1.1"))
        server = upstream.accept()
        server.read_head()
        said = SSE + b"\r\nevent: endpoint\ndata: %s/messages\n\n" % upstream.origin.encode()
        server.send(said)
        heard = said.replace(upstream.origin.encode(), b"http://127.0.0.1:8765")
        assert client.read(len(heard)) == heard
        server.send(b"data: %s\n\n" % upstream.origin.encode())
        assert client.read(8 + len(upstream.origin)) == b"data: %s\n\n" % upstream.origin.encode()
        records = proxy.stop()
    assert stream(records, journal.SERVER).startswith(said)
    assert journal.NOTE in kinds(records)


def test_metadata_on_the_wire_and_in_the_journal(upstream: http_peers.Upstream, tmp_path: Path) -> None:
    with Proxy(str(tmp_path / "t"), upstream.origin, "--rewrite-origin") as proxy:
        client = proxy.connect()
        client.send(request(line=b"GET /.well-known/oauth-authorization-server HTTP/1.1"))
        server = upstream.accept()
        server.read_head()
        said = sized(b'{"issuer": "%s"}' % upstream.origin.encode())
        server.send(said[:-9])
        server.send(said[-9:])
        heard = sized(b'{"issuer": "http://127.0.0.1:8765"}').replace(b"content", b"Content", 1)
        heard = heard.replace(b"-length", b"-Length")
        assert client.read(len(heard)) == heard
        records = proxy.stop()
    assert stream(records, journal.SERVER) == said
    assert b"the metadata named upstream's own address" in stream(records, journal.NOTE)


def test_a_challenge_on_the_wire(upstream: http_peers.Upstream, tmp_path: Path) -> None:
    with Proxy(str(tmp_path / "t"), upstream.origin, "--rewrite-origin") as proxy:
        client = proxy.connect()
        challenge = b'WWW-Authenticate: Bearer resource_metadata="%s/x"'
        answer = b"HTTP/1.1 401 No\r\n" + challenge + b"\r\nContent-Length: 0\r\n\r\n"
        for _ in range(2):
            client.send(request(b"hello"))
            server = upstream.peers[0] if upstream.peers else upstream.accept()
            server.read_head()
            server.read(5)
            server.send(answer % upstream.origin.encode())
            heard = answer % b"http://127.0.0.1:8765"
            assert client.read(len(heard)) == heard


MOVED = b"HTTP/1.1 307 Temporary Redirect\r\nLocation: %s/mcp/\r\nContent-Length: 0\r\n\r\n"


def test_a_redirect_keeps_the_client_behind_the_proxy(upstream: http_peers.Upstream, tmp_path: Path) -> None:
    """The second on a connection too, and from the first one on those of connections that begin otherwise."""
    theirs, ours = MOVED % upstream.origin.encode(), MOVED % b"http://127.0.0.1:8765"
    with Proxy(str(tmp_path / "t"), upstream.origin) as proxy:
        for answers in ((theirs, OK, theirs), (OK, theirs)):
            client = proxy.connect()
            server = None
            for answer in answers:
                client.send(request())
                server = server or upstream.accept()
                server.read_head()
                server.send(answer)
                heard = ours if answer is theirs else OK
                assert client.read(len(heard)) == heard
        records = proxy.stop()
    assert stream(records, journal.SERVER) == theirs + OK + theirs
    assert stream(records, journal.SERVER, 2) == OK + theirs
    why = f"Location named {upstream.origin}, upstream's own address; the client was given ours"
    assert stream(records, journal.NOTE).count(why.encode()) == 2
    assert stream(records, journal.NOTE, 2).count(why.encode()) == 1


def test_servers_of_a_forward_proxy_keep_their_names(upstream: http_peers.Upstream, tmp_path: Path) -> None:
    with Proxy(str(tmp_path / "t"), "--forward") as proxy:
        client = proxy.connect()
        origin = upstream.origin.encode()
        client.send(b"GET %s/mcp HTTP/1.1\r\nHost: %s\r\n\r\n" % (origin, origin[7:]))
        upstream.accept().send(MOVED % origin)
        assert client.read_head() == MOVED % origin
