"""Parse HTTP from chunks. Each test is a conversation: who sends what, and which pieces are found."""

from collections.abc import Iterable
from itertools import pairwise

import h11
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcpproxy.record.framing.heads import LIMIT_BYTES
from mcpproxy.record.framing.http1 import (
    BodyEnd,
    BodyPart,
    Broken,
    Cut,
    Http1Connection,
    OpaqueBytes,
    Piece,
    RequestStart,
    ResponseStart,
)

Turn = tuple[str, bytes]
"""Who does something, and the bytes sent: a side, or an ending like ``client closes`` without any."""

Script = tuple[list[Turn], list[str]]
"""What happens, and what is seen (`seen` has the notation)."""

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
HEAD = b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"
UPGRADE = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"
CONNECT = b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"


def C(data: bytes) -> Turn:
    return "client", data


def S(data: bytes) -> Turn:
    return "server", data


def P(data: bytes) -> Turn:
    return "proxy", data


C_CLOSES: Turn = ("client closes", b"")
C_RESETS: Turn = ("client resets", b"")
S_CLOSES: Turn = ("server closes", b"")
S_RESETS: Turn = ("server resets", b"")
OPAQUE: Turn = ("opaque", b"")

# A request, its response, and what is seen of both; the connection goes on.
EXCHANGES: dict[str, tuple[bytes, bytes, list[str]]] = {
    "nothing but heads": (
        GET,
        b"HTTP/1.1 204 No Content\r\n\r\n",
        ["1 GET /", "1 client end", "1 server 204", "1 server end"],
    ),
    "a body each": (
        POST,
        OK,
        ["1 POST /mcp", "1 client 'body'", "1 client end", "1 server 200", "1 server 'ok'", "1 server end"],
    ),
    "an empty body": (
        b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 202 Accepted\r\ncontent-length:0\r\n\r\n",
        ["1 POST /", "1 client end", "1 server 202", "1 server end"],
    ),
    "chunks": (
        b'POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0a;x="y"\r\n'
        b"0123456789\r\n0\r\n\r\n",
        CHUNKED + b"2 \r\nok\r\n1 ; x\r\n!\r\n00\r\nDigest: x\r\nB:\r\n\r\n",
        [
            "1 POST /",
            "1 client 'abc0123456789'",
            "1 client end",
            "1 server 200",
            "1 server 'ok!'",
            "1 server end Digest=x B=",
        ],
    ),
    "chunks with bare line feeds": (
        GET,
        b"HTTP/1.1 200 OK\nTransfer-Encoding: gzip, Chunked\n\n2\nok\n0\n\n",
        ["1 GET /", "1 client end", "1 server 200", "1 server 'ok'", "1 server end"],
    ),
    "a chunked body beats a length": (
        GET,
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ["1 GET /", "1 client end", "1 server 200", "1 server end"],
    ),
    "one length said twice": (
        b"POST / HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok",
        ["1 POST /", "1 client 'hi'", "1 client end", "1 server 200", "1 server 'ok'", "1 server end"],
    ),
    "HEAD": (
        HEAD,
        b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n",
        ["1 HEAD /", "1 client end", "1 server 200", "1 server end"],
    ),
    "not modified": (
        GET,
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 999\r\n\r\n",
        ["1 GET /", "1 client end", "1 server 304", "1 server end"],
    ),
    "interim responses": (
        POST,
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK,
        [
            "1 POST /mcp",
            "1 client 'body'",
            "1 client end",
            "1 server 100",
            "1 server 103",
            "1 server 200",
            "1 server 'ok'",
            "1 server end",
        ],
    ),
    "no reason phrase, line ends between messages": (
        b"\r\n\n" + GET,
        b"\r\nHTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
        ["1 GET /", "1 client end", "1 server 200", "1 server end"],
    ),
    "an upgrade that is refused": (
        UPGRADE,
        OK,
        ["1 GET /", "1 client end", "1 server 200", "1 server 'ok'", "1 server end"],
    ),
    "a tunnel that is refused": (
        CONNECT,
        b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno",
        ["1 CONNECT a:1", "1 client end", "1 server 403", "1 server 'no'", "1 server end"],
    ),
    "HTTP/1.0": (
        b"GET / HTTP/1.0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        ["1 GET /", "1 client end", "1 server 200", "1 server 'ok'", "1 server end"],
    ),
}

THE_NEXT: list[str] = ["2 GET /", "2 client end", "2 server 200", "2 server 'ok'", "2 server end"]

CONVERSATIONS: dict[str, Script] = {
    "pipelined": (
        [C(HEAD + POST + GET), S(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n" + OK + OK)],
        [
            "1 HEAD /",
            "1 client end",
            "2 POST /mcp",
            "2 client 'body'",
            "2 client end",
            "3 GET /",
            "3 client end",
            "1 server 200",
            "1 server end",
            "2 server 200",
            "2 server 'ok'",
            "2 server end",
            "3 server 200",
            "3 server 'ok'",
            "3 server end",
        ],
    ),
    "an answer before the question is over": (
        [C(POST[:-2]), S(OK), C(b"dy" + GET), S(OK)],
        [
            "1 POST /mcp",
            "1 client 'bo'",
            "1 server 200",
            "1 server 'ok'",
            "1 server end",
            "1 client 'dy'",
            "1 client end",
            *THE_NEXT,
        ],
    ),
    "a body until the close": (
        [C(GET), S(b"HTTP/1.1 200 OK\r\n\r\nok"), S(b"ay"), S_CLOSES, C_CLOSES],
        ["1 GET /", "1 client end", "1 server 200", "1 server 'okay'", "1 server end"],
    ),
    "a coding without chunks lasts until the close": (
        [C(GET), S(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nok"), S_CLOSES],
        ["1 GET /", "1 client end", "1 server 200", "1 server 'ok'", "1 server end"],
    ),
    "a client that closed its half gets its answer": (
        [C(GET), C_CLOSES, S(b"HTTP/1.1 200 OK\r\n\r\nok"), S_CLOSES],
        ["1 GET /", "1 client end", "1 server 200", "1 server 'ok'", "1 server end"],
    ),
    "a body until the reset": (
        [C(GET), S(b"HTTP/1.1 200 OK\r\n\r\nok"), S_RESETS],
        [
            "1 GET /",
            "1 client end",
            "1 server 200",
            "1 server 'ok'",
            "1 server cut by server: the server reset the connection",
        ],
    ),
    "a client that resets does not wait for the end": (
        [C(GET), S(b"HTTP/1.1 200 OK\r\n\r\nok"), C_RESETS, S_CLOSES],
        [
            "1 GET /",
            "1 client end",
            "1 server 200",
            "1 server 'ok'",
            "1 server cut by client: the client reset the connection",
        ],
    ),
    "a response cut short": (
        [C(GET), S(OK[:-1]), S_CLOSES, C_CLOSES],
        [
            "1 GET /",
            "1 client end",
            "1 server 200",
            "1 server 'o'",
            "1 server cut by server: the server closed the connection; 1 of 2 bytes of the body came",
        ],
    ),
    "chunks cut short by the client": (
        [C(GET), S(CHUNKED + b"2\r\nok\r\n"), C_CLOSES, S_CLOSES],
        [
            "1 GET /",
            "1 client end",
            "1 server 200",
            "1 server 'ok'",
            "1 server cut by client: the client closed the connection; the last chunk of the body is missing",
        ],
    ),
    "a request cut short": (
        [C(POST[:-1]), C_RESETS, S_CLOSES],
        [
            "1 POST /mcp",
            "1 client 'bod'",
            "1 client cut by client: the client reset the connection; 3 of 4 bytes of the body came",
            "1 server cut by client: the client reset the connection; no response came",
        ],
    ),
    "a request cut short by the server": (
        [C(POST[:-1]), S(OK), S_CLOSES, C_CLOSES],
        [
            "1 POST /mcp",
            "1 client 'bod'",
            "1 server 200",
            "1 server 'ok'",
            "1 server end",
            "1 client cut by server: the server closed the connection; 3 of 4 bytes of the body came",
        ],
    ),
    "never answered": (
        [C(GET + GET), S_CLOSES, C_CLOSES],
        [
            "1 GET /",
            "1 client end",
            "2 GET /",
            "2 client end",
            "1 server cut by server: the server closed the connection; no response came",
            "2 server cut by server: the server closed the connection; no response came",
        ],
    ),
    "answered by the proxy, as upstream is down": (
        [C(GET), S_CLOSES, P(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 2\r\n\r\n{}"), C_CLOSES],
        ["1 GET /", "1 client end", "1 proxy 502", "1 proxy '{}'", "1 proxy end"],
    ),
    "the proxy is cut short": (
        [C(GET), P(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 2\r\n\r\n{"), C_RESETS, S_CLOSES],
        [
            "1 GET /",
            "1 client end",
            "1 proxy 502",
            "1 proxy '{'",
            "1 proxy cut by client: the client reset the connection; 1 of 2 bytes of the body came",
        ],
    ),
    "a head that cannot be read is answered": (
        [C(b"GET  / HTTP/1.1\r\n\r\n"), P(b"HTTP/1.1 400 Bad Request\r\n\r\nno"), C_CLOSES, S_CLOSES],
        [
            "client broken: the request line cannot be read",
            "client opaque 'GET  / HTTP/1.1\\r\\n\\r\\n'",
            "1 proxy 400",
            "1 proxy 'no'",
            "1 proxy end",
        ],
    ),
    "a head is answered before it is over": (
        [C(b"GET / HT"), S(b"HTTP/1.1 100 Continue\r\n\r\n" + OK), C(b"TP/1.1\r\n\r\n" + GET), S(OK)],
        [
            "1 server 100",
            "1 server 200",
            "1 server 'ok'",
            "1 server end",
            "1 GET /",
            "1 client end",
            *THE_NEXT,
        ],
    ),
    "such a head is answered once": (
        [C(b"GET / HT"), S(OK + OK)],
        [
            "1 server 200",
            "1 server 'ok'",
            "1 server end",
            "server broken: nothing was asked",
            f"server opaque {OK.decode()!r}",
        ],
    ),
    "both answer one question": (
        [C(GET), S(OK[:20]), P(OK), S(OK[20:])],
        [
            "1 GET /",
            "1 client end",
            "1 proxy 200",
            "1 proxy 'ok'",
            "1 proxy end",
            "server broken: nothing was asked",
            f"server opaque {OK.decode()!r}",
        ],
    ),
    "an answer to nothing": (
        [S(OK)],
        ["server broken: nothing was asked", f"server opaque {OK.decode()!r}"],
    ),
    "an upgrade": (
        [C(UPGRADE + b"\x81\x00"), S(SWITCH + b"\x88"), C(b"x"), S(b"y"), C_CLOSES, S_CLOSES],
        [
            "1 GET /",
            "1 client end",
            "1 server 101",
            "1 server end",
            "client opaque '\\x81\\x00'",
            "server opaque '\\x88'",
            "client opaque 'x'",
            "server opaque 'y'",
        ],
    ),
    "a tunnel": (
        [C(CONNECT), S(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"), C(GET)],
        [
            "1 CONNECT a:1",
            "1 client end",
            "1 server 200",
            "1 server end",
            "server opaque 'hello'",
            f"client opaque {GET.decode()!r}",
        ],
    ),
    "an upgrade within a body, and with more in the pipeline": (
        [C(GET + GET + POST[:-1]), S(SWITCH), C(b"x")],
        [
            "1 GET /",
            "1 client end",
            "2 GET /",
            "2 client end",
            "3 POST /mcp",
            "3 client 'bod'",
            "1 server 101",
            "1 server end",
            "3 client cut by server: the connection ceased to be HTTP",
            "2 server cut by server: the connection ceased to be HTTP",
            "3 server cut by server: the connection ceased to be HTTP",
            "client opaque 'x'",
        ],
    ),
    "the proxy says that it is opaque": (
        [C(GET), S(OK[:9]), OPAQUE, S(OK[9:]), OPAQUE],
        [
            "1 GET /",
            "1 client end",
            f"server opaque {OK[:9].decode()!r}",
            "1 server cut by proxy: the connection ceased to be HTTP",
            f"server opaque {OK[9:].decode()!r}",
        ],
    ),
    "a refused upgrade with more in the pipeline": (
        [C(UPGRADE + GET), C_CLOSES, S(OK + OK), S_CLOSES],
        [
            "1 GET /",
            "1 client end",
            "1 server 200",
            "2 GET /",
            "2 client end",
            "1 server 'ok'",
            "1 server end",
            "2 server 200",
            "2 server 'ok'",
            "2 server end",
        ],
    ),
    "an upgrade that is never answered": (
        [C(UPGRADE + b"x"), C_CLOSES, S_CLOSES],
        [
            "1 GET /",
            "1 client end",
            "client opaque 'x'",
            "1 server cut by client: the client closed the connection; no response came",
        ],
    ),
    "a head cut short": (
        [C(GET[:9]), C_CLOSES],
        [
            "client broken: the client closed the connection in the middle of a head",
            "client opaque 'GET / HTT'",
        ],
    ),
    "line ends are no head": ([C(b"\r\n\r\n"), C_CLOSES, S_CLOSES], []),
    "bytes after the end": (
        [C_CLOSES, C_CLOSES, C(GET)],
        [f"client opaque {GET.decode()!r}"],
    ),
}

# What the client sends instead of HTTP, and why it is not.
NO_REQUESTS: dict[str, tuple[bytes, str]] = {
    "TLS": (b"\x16\x03\x01\x02", "this is not an HTTP request"),
    "JSON": (b'{"jsonrpc": "2.0"}', "this is not an HTTP request"),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\n", "this is HTTP/2.0, not HTTP/1.1"),
    "HTTP/0.9": (b"GET /\r\n\r\n", "the request line cannot be read"),
    "a fold below the request line": (
        b"GET / HTTP/1.1\r\n A: b\r\n\r\n",
        "a header field cannot be read",
    ),
    "a space before the colon": (b"GET / HTTP/1.1\r\nA : b\r\n\r\n", "a header field cannot be read"),
    "a carriage return in a value": (b"GET / HTTP/1.1\r\nA: b\rc\r\n\r\n", "a header field cannot be read"),
    "NUL": (b"GET / HTTP/1.1\r\nA: \0\r\n\r\n", "a header field cannot be read"),
    "too long": (
        b"GET / HTTP/1.1\r\nA: " + b"a" * LIMIT_BYTES,
        "a head is longer than 256 KiB",
    ),
}

# A message's framing that nobody can know or that breaks, after what was seen of it.
BAD_FRAMING: dict[str, tuple[bytes, str, str]] = {
    "two lengths": (
        b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "",
        "Content-Length says different things",
    ),
    "no number": (b"Content-Length: +1\r\n\r\n", "", "Content-Length is not a number of bytes"),
    "an empty length": (b"Content-Length:\r\n\r\n", "", "Content-Length is not a number of bytes"),
    "an endless length": (
        b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
        "",
        "Content-Length is not a number of bytes",
    ),
    "no size": (b"Transfer-Encoding: chunked\r\n\r\n\r\n", "", "the size of a chunk cannot be read"),
    "a hexadecimal prefix": (
        b"Transfer-Encoding: chunked\r\n\r\n0x1\r\n",
        "",
        "the size of a chunk cannot be read",
    ),
    "an endless size": (
        b"Transfer-Encoding: chunked\r\n\r\n" + b"1" * 17 + b"\r\n",
        "",
        "the size of a chunk cannot be read",
    ),
    "a chunk too long": (
        b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
        "a",
        "a chunk is longer than its size says",
    ),
    "an extension too long": (
        b"Transfer-Encoding: chunked\r\n\r\n1;" + b"a" * (16 << 10),
        "",
        "a line of the chunked body is too long",
    ),
    "a whole extension too long": (
        b"Transfer-Encoding: chunked\r\n\r\n1;" + b"a" * (16 << 10) + b"\r\n",
        "",
        "a line of the chunked body is too long",
    ),
    "a bad trailer": (
        b"Transfer-Encoding: chunked\r\n\r\n0\r\nA b\r\n\r\n",
        "",
        "a header field cannot be read",
    ),
    "trailers too long": (
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"A: b\r\n" * (LIMIT_BYTES // 6 + 1),
        "",
        "the trailers are too long",
    ),
}


def drive(turns: Iterable[Turn]) -> list[Piece]:
    """All pieces of a conversation. The time is the number of the turn."""
    connection = Http1Connection()
    pieces: list[Piece] = []
    for at_ns, (what, data) in enumerate(turns):
        match what.split():
            case ["client"]:
                pieces += connection.client(data, at_ns)
            case ["server"]:
                pieces += connection.server(data, at_ns)
            case ["proxy"]:
                pieces += connection.proxy(data, at_ns)
            case ["client", how]:
                pieces += connection.client_eof(at_ns, reset=how == "resets")
            case ["server", how]:
                pieces += connection.server_eof(at_ns, reset=how == "resets")
            case _:
                pieces += connection.opaque(at_ns)
    return pieces


def seen(pieces: list[Piece]) -> list[str]:
    """The pieces in a line each, without times; what may be cut anywhere is joined.

    ``1 GET /`` and ``1 server 200`` are heads, ``1 client 'x'`` is content; the number is the exchange's.
    """
    lines: list[str] = []
    last: tuple[str, bytes] = ("", b"")
    for piece in pieces:
        run = ("", b"")
        match piece:
            case RequestStart():
                lines.append(f"{piece.exchange} {piece.method} {piece.target}")
            case ResponseStart():
                lines.append(f"{piece.exchange} {piece.by} {piece.status}")
            case BodyPart():
                assert piece.data
                run = (f"{piece.exchange} {piece.of}", piece.data)
            case BodyEnd():
                fields = "".join(f" {name}={value}" for name, value in piece.trailers)
                lines.append(f"{piece.exchange} {piece.of} end{fields}")
            case Cut():
                lines.append(f"{piece.exchange} {piece.of} cut by {piece.by}: {piece.why}")
            case Broken():
                lines.append(f"{piece.of} broken: {piece.why}")
                run = (f"{piece.of} opaque", piece.data)
            case OpaqueBytes():
                assert piece.data
                run = (f"{piece.of} opaque", piece.data)
        if run[1]:
            who, data = run
            if last[0] == who:
                lines.pop()
                data = last[1] + data
            lines.append(f"{who} {data.decode('latin-1')!r}")
            last = (who, data)
        elif not (isinstance(piece, Broken)):
            last = ("", b"")
    return lines


def byte_by_byte(turns: Iterable[Turn]) -> list[Turn]:
    return [
        (who, data[at : at + 1] if data else b"") for who, data in turns for at in range(max(1, len(data)))
    ]


def split(turns: list[Turn], cuts: list[int]) -> list[Turn]:
    """The turns, with the bytes of each cut at the same places; two equal cuts make an empty chunk."""
    chunks: list[Turn] = []
    for who, data in turns:
        places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)] if data else [0, 0]
        chunks += [(who, data[start:stop]) for start, stop in pairwise(places)]
    return chunks


@pytest.mark.parametrize(("request_", "response", "expected"), EXCHANGES.values(), ids=EXCHANGES)
def test_an_exchange(request_: bytes, response: bytes, expected: list[str]) -> None:
    turns = [C(request_), S(response)]
    assert seen(drive(turns)) == expected
    assert seen(drive(byte_by_byte(turns))) == expected


@pytest.mark.parametrize(("request_", "response", "expected"), EXCHANGES.values(), ids=EXCHANGES)
def test_an_exchange_leaves_what_follows_it(request_: bytes, response: bytes, expected: list[str]) -> None:
    turns = [C(request_), S(response), C(GET), S(OK)]
    assert seen(drive(turns)) == expected + THE_NEXT
    together = drive([C(request_ + GET), S(response + OK)])
    assert sorted(seen(together)) == sorted(expected + THE_NEXT)


@pytest.mark.parametrize(("turns", "expected"), CONVERSATIONS.values(), ids=CONVERSATIONS)
def test_a_conversation(turns: list[Turn], expected: list[str]) -> None:
    assert seen(drive(turns)) == expected
    assert seen(drive(byte_by_byte(turns))) == expected


@pytest.mark.parametrize(("data", "why"), NO_REQUESTS.values(), ids=NO_REQUESTS)
def test_what_is_not_a_request_is_said_once(data: bytes, why: str) -> None:
    expected = [f"client broken: {why}", f"client opaque {(data + b'more').decode('latin-1')!r}"]
    assert seen(drive([C(data), C(b"more")])) == expected
    assert seen(drive(split([C(data), C(b"more")], [1, 2, 3, len(data) - 1]))) == expected


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"SSH-2.0-OpenSSH\r\n", "this is not an HTTP response"),
        (b"HTTP/1.1 OK\r\n\r\n", "the status line cannot be read"),
        (b"HTTP/1.1 099 OK\r\n\r\n", "the status line cannot be read"),
        (b"HTTP/2.0 200 OK\r\n\r\n", "this is HTTP/2.0, not HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nA b\r\n\r\n", "a header field cannot be read"),
        (b"HTTP/1.1 200 OK\r\n A: b\r\n\r\n", "a header field cannot be read"),
    ],
)
def test_what_is_not_a_response_is_said_once(data: bytes, why: str) -> None:
    expected = ["1 GET /", "1 client end", f"server broken: {why}", f"server opaque {data.decode()!r}"]
    assert seen(drive([C(GET), S(data)])) == expected
    assert seen(drive(byte_by_byte([C(GET), S(data)]))) == expected


@pytest.mark.parametrize(("message", "content", "why"), BAD_FRAMING.values(), ids=BAD_FRAMING)
def test_a_body_without_a_sure_end_is_cut(message: bytes, content: str, why: str) -> None:
    request = b"POST / HTTP/1.1\r\n" + message
    response = b"HTTP/1.1 200 OK\r\n" + message
    expected = ["1 POST /"]
    expected += [f"1 client {content!r}"] if content else []
    expected += [f"1 client cut by client: {why}", f"client broken: {why}"]
    assert [line for line in seen(drive([C(request)])) if "opaque" not in line] == expected
    expected = ["1 GET /", "1 client end", "1 server 200"]
    expected += [f"1 server {content!r}"] if content else []
    expected += [f"1 server cut by server: {why}", f"server broken: {why}"]
    assert [line for line in seen(drive([C(GET), S(response)])) if "opaque" not in line] == expected
    halves = [S(response[: len(response) // 2]), S(response[len(response) // 2 :])]
    assert seen(drive([C(GET), *halves])) == seen(drive([C(GET), S(response)]))


def test_a_request_in_a_coding_without_chunks_has_no_sure_end() -> None:
    why = "the request has a transfer coding but is not chunked: its end cannot be known"
    assert seen(drive([C(b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\nbody")])) == [
        "1 POST /",
        f"1 client cut by client: {why}",
        f"client broken: {why}",
        "client opaque 'body'",
    ]


def test_what_is_held_for_the_answer_to_an_upgrade_is_bounded() -> None:
    (*_, broken) = drive([C(UPGRADE), C(b"x" * LIMIT_BYTES), C(b"y")])
    assert isinstance(broken, Broken)
    assert broken.data == b"x" * LIMIT_BYTES + b"y"


def test_heads_are_kept_as_they_came() -> None:
    head = (
        b"POST /mcp?a=b HTTP/1.1\r\nHOST:a\r\nx: 1\r\nX:\t 2 \t\r\n"
        b"empty:\r\nfold: a\r\n \tb\r\nname: \xe9\r\n\r\n"
    )
    answer = b"HTTP/1.0 404 Not  Found\nA: b \nA:c\n\n"
    assert drive([C(head), C_CLOSES, S(answer), S_CLOSES]) == [
        RequestStart(
            exchange=1,
            method="POST",
            target="/mcp?a=b",
            version="1.1",
            headers=(("HOST", "a"), ("x", "1"), ("X", "2"), ("empty", ""), ("fold", "a b"), ("name", "é")),
            raw=head,
            at_ns=0,
        ),
        BodyEnd(1, "client", 0, ()),
        ResponseStart(
            exchange=1,
            status=404,
            reason="Not  Found",
            version="1.0",
            headers=(("A", "b"), ("A", "c")),
            raw=answer,
            at_ns=2,
            by="server",
        ),
        BodyEnd(1, "server", 3, ()),
    ]


def test_a_long_head_is_read_like_a_short_one() -> None:
    fields = tuple((f"Field-{number}", "x" * 100) for number in range(1000))
    lines = b"".join(f"{name}: {value}\r\n".encode() for name, value in fields)
    request, _, response, _ = drive(
        [C(b"GET / HTTP/1.1\r\n" + lines + b"\r\n"), S(b"HTTP/1.1 204\r\n" + lines + b"\r\n")]
    )
    assert isinstance(request, RequestStart)
    assert isinstance(response, ResponseStart)
    assert request.headers == response.headers == fields


# --- any bytes, any chunks


FRAGMENTS = st.lists(
    st.sampled_from([GET, HEAD, POST, UPGRADE, CONNECT, CHUNKED, OK, SWITCH, GET[:-2], OK[:-3]])
    | st.sampled_from([b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 204\n\n"])
    | st.sampled_from(
        [b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"2\r\nok\r\n", b"0\r\n\r\n"]
    )
    | st.sampled_from([b"\r\n", b"\n", b"\r", b"0\r\n", b"A: b\r\n", b" ", b"\0"])
    | st.binary(max_size=8),
    max_size=5,
).map(b"".join)
TURNS = st.lists(
    st.tuples(st.sampled_from(["client", "client", "server", "server", "proxy"]), FRAGMENTS)
    | st.sampled_from([C_CLOSES, C_RESETS, S_CLOSES, S_RESETS, OPAQUE]),
    max_size=8,
)


@given(TURNS, st.lists(st.integers(0, 120), max_size=8))
@example([C(GET), S(b"HTTPX"), C_CLOSES], [1])
@example([S(b"X")], [])
def test_any_bytes_in_any_chunks_give_the_same(turns: list[Turn], cuts: list[int]) -> None:
    assert seen(drive(split(turns, cuts))) == seen(drive(turns))


@given(TURNS)
def test_every_message_ends_once(turns: list[Turn]) -> None:
    pieces = drive([*turns, C_CLOSES, S_CLOSES])
    begun = [("client", piece.exchange) for piece in pieces if isinstance(piece, RequestStart)]
    ended = [piece for piece in pieces if isinstance(piece, BodyEnd | Cut)]
    assert sorted(("client", piece.exchange) for piece in ended if piece.of == "client") == sorted(begun)
    answered = [piece.exchange for piece in ended if piece.of != "client"]
    assert len(set(answered)) == len(answered)
    assert {exchange for _, exchange in begun} <= set(answered)


# --- h11 as a second opinion on well-formed traffic

TOKENS = st.text("abcXYZ-_.!", min_size=1, max_size=8)
VALUES = st.text("abc 123;=,\xe9", max_size=12).map(str.strip)
FIELDS = st.lists(st.tuples(TOKENS.map("X-".__add__), VALUES), max_size=4)


@st.composite
def messages(draw: st.DrawFn, first_line: bytes) -> bytes:
    """A message with a few fields, and a body of a known length or in chunks."""
    lines = [first_line, b"Host: a"]
    lines += [f"{name}: {value}".encode("latin-1") for name, value in draw(FIELDS)]
    parts = draw(st.lists(st.binary(min_size=1, max_size=30), max_size=4))
    if draw(st.booleans()):
        lines.append(b"Transfer-Encoding: chunked")
        body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
        body += b"0\r\n" + b"".join(f"{n}: {v}\r\n".encode("latin-1") for n, v in draw(FIELDS)) + b"\r\n"
    else:
        body = b"".join(parts)
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


Fields = list[tuple[bytes, bytes]]
Read = tuple[bytes, bytes, Fields, bytes, Fields]
"""A message as both readers tell it: two words of its first line, fields, body, trailers."""


def lowered(headers: Iterable[tuple[str, str]]) -> Fields:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]


def read_by_us(pieces: list[Piece], of: str) -> Read:
    words, fields, body, trailers = (b"", b""), Fields(), b"", Fields()
    for piece in pieces:
        match piece:
            case RequestStart() if of == "client":
                words, fields = (piece.method.encode(), piece.target.encode()), lowered(piece.headers)
            case ResponseStart() if of == "server":
                words, fields = (str(piece.status).encode(), piece.reason.encode()), lowered(piece.headers)
            case BodyPart() if piece.of == of:
                body += piece.data
            case BodyEnd() if piece.of == of:
                trailers = lowered(piece.trailers)
            case _:
                pass
    return *words, fields, body, trailers


def read_by_h11(reader: h11.Connection, data: bytes) -> Read:
    words, fields, body, trailers = (b"", b""), Fields(), b"", Fields()
    reader.receive_data(data)
    while True:
        match reader.next_event():
            case h11.Request() as event:
                words, fields = (event.method, event.target), list(event.headers)
            case h11.Response() as event:
                words, fields = (str(event.status_code).encode(), event.reason), list(event.headers)
            case h11.Data() as event:
                body += event.data
            case h11.EndOfMessage() as event:
                trailers = list(event.headers)
            case _:
                return *words, fields, body, trailers


@given(messages(b"POST /mcp?a=b HTTP/1.1"), messages(b"HTTP/1.1 200 All right"))
def test_h11_reads_the_same(request_: bytes, response: bytes) -> None:
    pieces = drive([C(request_), S(response)])
    assert read_by_us(pieces, "client") == read_by_h11(h11.Connection(h11.SERVER), request_)
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method="GET", target="/", headers=[("Host", "a")]))
    client.send(h11.EndOfMessage())
    assert read_by_us(pieces, "server") == read_by_h11(client, response)
