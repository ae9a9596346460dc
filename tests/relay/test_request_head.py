"""Heads of requests: which are parsed, and which are refused because they could be read in two ways."""

import pytest

from mcpproxy.base.authority import split_authority
from mcpproxy.record.relay.http.body_end import ChunkedCounter, LengthCounter
from mcpproxy.record.relay.http.request_head import CHUNKED, LIMIT_BYTES, Refusal, check_beginning, parse

GET = b"GET / HTTP/1.1\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a\r\n"
END = b"\r\n\r\n"

REFUSED: dict[str, tuple[bytes, int, str]] = {
    "bare LF": (b"GET / HTTP/1.1\nHost: a\r\n\r\n", 400, "CR LF"),
    "bare LF in the fields": (GET + b"Host: a\nX: b" + END, 400, "CR LF"),
    "bare CR in a value": (GET + b"Host: a\r\nX: b\rY: c" + END, 400, "CR LF"),
    "folded value": (GET + b"Host: a\r\nX: b\r\n c" + END, 400, "several lines"),
    "folded first field": (GET + b" Host: a" + END, 400, "several lines"),
    "white space before the colon": (GET + b"Host: a\r\nContent-Length : 5" + END, 400, "white space"),
    "tab before the colon": (GET + b"Host\t: a" + END, 400, "white space"),
    "NUL": (GET + b"Host: a\x00" + END, 400, "control character"),
    "escape": (GET + b"Host: a\r\nX: \x1b[2J" + END, 400, "control character"),
    "DEL": (GET + b"Host: a\x7f" + END, 400, "control character"),
    "no colon": (GET + b"Host: a\r\nnonsense" + END, 400, "field cannot be read"),
    "no name": (GET + b"Host: a\r\n: x" + END, 400, "field cannot be read"),
    "name that is no token": (GET + b"Host: a\r\nX Y: z" + END, 400, "field cannot be read"),
    "name beyond ASCII": (GET + b"Host: a\r\nX\xe9: z" + END, 400, "field cannot be read"),
    "both lengths": (
        POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked" + END,
        400,
        "Content-Length and",
    ),
    "both, the other way": (
        POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5" + END,
        400,
        "and a Transfer",
    ),
    "two lengths": (
        POST + b"Content-Length: 5\r\nContent-Length: 6" + END,
        400,
        "more than one Content-Length",
    ),
    "the same twice": (
        POST + b"Content-Length: 5\r\nContent-Length: 5" + END,
        400,
        "more than one Content-Length",
    ),
    "a list of lengths": (POST + b"Content-Length: 5, 5" + END, 400, "not a number"),
    "signed length": (POST + b"Content-Length: +5" + END, 400, "not a number"),
    "negative length": (POST + b"Content-Length: -5" + END, 400, "not a number"),
    "hexadecimal length": (POST + b"Content-Length: 0x5" + END, 400, "not a number"),
    "empty length": (POST + b"Content-Length:" + END, 400, "not a number"),
    "length of 19 digits": (POST + b"Content-Length: 1000000000000000000" + END, 400, "not a number"),
    "length in other digits": (POST + b"Content-Length: \xd9\xa5" + END, 400, "not a number"),
    "unknown coding": (POST + b"Transfer-Encoding: xchunked" + END, 400, "not chunked alone"),
    "coding before chunked": (POST + b"Transfer-Encoding: gzip, chunked" + END, 400, "not chunked alone"),
    "chunked, not last": (POST + b"Transfer-Encoding: chunked, identity" + END, 400, "not chunked alone"),
    "chunked twice": (POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked" + END, 400, "alone"),
    "chunked with a parameter": (POST + b"Transfer-Encoding: chunked;a=b" + END, 400, "not chunked alone"),
    "chunked behind a vertical tab": (
        POST + b"Transfer-Encoding: \x0bchunked" + END,
        400,
        "control character",
    ),
    "chunked in HTTP/1.0": (
        b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked" + END,
        400,
        "HTTP/1.0 knows no",
    ),
    "no Host": (b"GET / HTTP/1.1" + END, 400, "Host field is missing"),
    "two Hosts": (GET + b"Host: a\r\nHost: a" + END, 400, "more than one Host"),
    "empty Host": (GET + b"Host:" + END, 400, "not a host"),
    "Host with a path": (GET + b"Host: a/b" + END, 400, "not a host"),
    "Host with a user": (GET + b"Host: a@b" + END, 400, "not a host"),
    "Host with two": (GET + b"Host: a, b" + END, 400, "not a host"),
    "Host with a wild port": (GET + b"Host: a:99999" + END, 400, "not a host"),
    "method that is no token": (b"GE(T / HTTP/1.1\r\nHost: a" + END, 400, "request line"),
    "two spaces": (b"GET  / HTTP/1.1\r\nHost: a" + END, 400, "request line"),
    "tab for a space": (b"GET\t/ HTTP/1.1\r\nHost: a" + END, 400, "request line"),
    "space behind the version": (b"GET / HTTP/1.1 \r\nHost: a" + END, 400, "request line"),
    "space in the target": (b"GET /a b HTTP/1.1\r\nHost: a" + END, 400, "request line"),
    "target beyond ASCII": (b"GET /\xc3\xa4 HTTP/1.1\r\nHost: a" + END, 400, "request line"),
    "no version": (b"GET /\r\nHost: a" + END, 400, "request line"),
    "small http": (b"GET / http/1.1\r\nHost: a" + END, 400, "request line"),
    "fragment": (b"GET /a#b HTTP/1.1\r\nHost: a" + END, 400, "fragment"),
    "relative target": (b"GET a/b HTTP/1.1\r\nHost: a" + END, 400, "neither a path nor a URL"),
    "other scheme": (b"GET ftp://a/ HTTP/1.1\r\nHost: a" + END, 400, "neither a path nor a URL"),
    "URL with a user": (b"GET http://u@a/ HTTP/1.1\r\nHost: a" + END, 400, "neither a path nor a URL"),
    "* for GET": (b"GET * HTTP/1.1\r\nHost: a" + END, 400, "only OPTIONS"),
    "CONNECT to a path": (b"CONNECT /x HTTP/1.1\r\nHost: a" + END, 400, "CONNECT"),
    "CONNECT without a port": (b"CONNECT a HTTP/1.1\r\nHost: a" + END, 400, "CONNECT"),
    "HTTP/2": (b"PRI * HTTP/2.0" + END, 505, "HTTP/2"),
    "HTTP/0.9 with a version": (b"GET / HTTP/0.9\r\nHost: a" + END, 505, "HTTP/0"),
    "too long": (GET + b"Host: a\r\nX: " + b"x" * LIMIT_BYTES + END, 431, "longer than 64 KiB"),
}


@pytest.mark.parametrize(("raw", "status", "why"), REFUSED.values(), ids=REFUSED)
def test_refused(raw: bytes, status: int, why: str) -> None:
    with pytest.raises(Refusal) as refusal:
        parse(raw)
    assert refusal.value.status == status
    assert why in refusal.value.why


def test_what_a_head_says() -> None:
    head = parse(
        b"POST /mcp?x=1 HTTP/1.1\r\nhost:a.b:81\r\nX-Dup: 1\r\nX-dup:  \xe9\t\r\nX-Empty:\r\n"
        b"Connection: keep-alive, Upgrade\r\nConnection: TE\r\nContent-Length: 12\r\n\r\n"
    )
    assert (head.method, head.target, head.version) == (b"POST", b"/mcp?x=1", b"1.1")
    assert (head.host, head.length) == (b"a.b:81", 12)
    assert head.options == [b"keep-alive", b"upgrade", b"te"]
    assert head.fields[1:4] == [
        (b"x-dup", b"1", b"X-Dup: 1"),
        (b"x-dup", b"\xe9", b"X-dup:  \xe9\t"),
        (b"x-empty", b"", b"X-Empty:"),
    ]
    assert head.value(b"x-dup") == b"1"
    assert head.value(b"x-none") is None


TARGETS: dict[bytes, tuple[bytes | None, bytes]] = {
    b"GET / HTTP/1.1": (None, b"/"),
    b"GET //a/b?c=//d HTTP/1.1": (None, b"//a/b?c=//d"),
    b"OPTIONS * HTTP/1.1": (None, b"*"),
    b"GET http://a:81/b?c HTTP/1.1": (b"a:81", b"/b?c"),
    b"GET HTTP://a HTTP/1.1": (b"a", b"/"),
    b"GET http://[::1]:81?c HTTP/1.1": (b"[::1]:81", b"/?c"),
    b"CONNECT a:443 HTTP/1.1": (b"a:443", b""),
    b"PURGE /x HTTP/1.0": (None, b"/x"),
}


@pytest.mark.parametrize(("line", "said"), TARGETS.items(), ids=[line.decode() for line in TARGETS])
def test_targets(line: bytes, said: tuple[bytes | None, bytes]) -> None:
    head = parse(line + b"\r\nHost: a" + END)
    assert (head.authority, head.path) == said


def test_chunked_is_told_from_a_length() -> None:
    assert parse(POST + b"Transfer-Encoding: Chunked" + END).length == CHUNKED
    assert parse(POST + b"Content-Length: 0" + END).length == 0
    assert parse(b"GET / HTTP/1.0" + END).host is None


@pytest.mark.parametrize("raw", [b"GET / HTTP/1.1\n", b"\x16\x03\x01", b"GET /\x00", b"a" * LIMIT_BYTES])
def test_a_head_that_cannot_become_valid_is_refused_before_it_is_complete(raw: bytes) -> None:
    with pytest.raises(Refusal):
        check_beginning(raw)


def test_the_beginning_of_a_head_is_waited_for() -> None:
    whole = b"POST /mcp HTTP/1.1\r\nHost: a\r\nX: \xe9\t"
    for size in range(len(whole) + 1):
        check_beginning(whole[:size])


@pytest.mark.parametrize(
    ("text", "said"),
    [(b"A.b", ("a.b", None)), (b"a:80", ("a", 80)), (b"a:", ("a", None)), (b"[::1]:8", ("::1", 8))],
)
def test_authorities(text: bytes, said: tuple[str, int | None]) -> None:
    assert split_authority(text) == said


BODIES: dict[str, bytes] = {
    "nothing": b"0\r\n\r\n",
    "one chunk": b"5\r\nhello\r\n0\r\n\r\n",
    "chunks that look like ends": b"7\r\n\r\n0\r\n\r\n\r\n1\r\n\n\r\n0\r\n\r\n",
    "extensions": b'5;a=b;c="d e"\r\nhello\r\n0;last\r\n\r\n',
    "trailers": b"2\r\nhi\r\n0\r\nX-Sum: 1\r\nX-More:\r\n\r\n",
    "capitals and zeros": b"000A\r\n0123456789\r\n000\r\n\r\n",
}


@pytest.mark.parametrize("raw", BODIES.values(), ids=BODIES)
def test_the_end_of_a_chunked_body_is_found_however_it_is_cut(raw: bytes) -> None:
    for size in range(1, len(raw) + 1):
        body = ChunkedCounter()
        for at in range(0, len(raw), size):
            piece = raw[at : at + size]
            assert not body.is_over
            assert body.feed(piece, 0) == len(piece)
        assert body.is_over
    body = ChunkedCounter()
    assert body.feed(b"ahead" + raw + b"GET", 5) == 5 + len(raw)


BROKEN: dict[str, bytes] = {
    "no size": b"\r\nhello",
    "size that is no number": b"g\r\n",
    "signed size": b"+5\r\nhello\r\n",
    "size with a prefix": b"0x5\r\nhello\r\n",
    "white space first": b" 5\r\nhello\r\n",
    "bare LF": b"5\nhello\r\n",
    "bare LF in an extension": b"5;a\nb\r\n",
    "bare CR in an extension": b"5;a\rb\r\nhello",
    "size of 16 digits": b"0000000000000005\r\nhello\r\n",
    "chunk longer than it says": b"5\r\nhello!\r\n",
    "LF behind a chunk": b"5\r\nhello\n",
    "line without end": b"5;" + b"x" * 5000,
    "trailer with a bare LF": b"0\r\nX: y\n\r\n",
    "trailer that is no field": b"0\r\nnonsense\r\n\r\n",
    "trailers without end": b"0\r\n" + b"X: y\r\n" * 20000,
}


@pytest.mark.parametrize("raw", BROKEN.values(), ids=BROKEN)
def test_chunks_that_two_could_read_differently_are_refused(raw: bytes) -> None:
    with pytest.raises(Refusal):
        ChunkedCounter().feed(raw, 0)


def test_the_end_of_a_body_of_known_length() -> None:
    body = LengthCounter(5)
    assert body.feed(b"xxabc", 2) == 5
    assert not body.is_over
    assert body.feed(b"deGET", 0) == 2
    assert body.is_over
