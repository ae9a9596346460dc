"""Where requests end, however their bytes are cut: a body that is there as a whole is not counted."""

import pytest

from mcpproxy.record.relay.http.guard import Guard
from mcpproxy.record.relay.http.request_head import Refusal
from mcpproxy.record.relay.http.request_reader import RequestReader
from mcpproxy.record.relay.http.resolve import Upstream
from mcpproxy.record.relay.http.route import Reverse, Route
from tests.relay.http_peers import request

HIDDEN = b"GET /hidden HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
CHUNKED = request(b"", b"Transfer-Encoding: chunked") + b"4\r\nbody\r\n0\r\n\r\n"


def reader() -> tuple[RequestReader, list[bytes]]:
    """A reader, and the methods and targets of the requests that it has found so far."""
    found: list[bytes] = []

    def note(route: Route, changes_server: bool, is_pipelined: bool, at_ns: int) -> None:
        found.append(route.request.method + b" " + route.request.target)

    router = Reverse(Upstream("127.0.0.1", 8765), "/mcp", Guard(True, (), ()))
    return RequestReader(router, note), found


def read(*pieces: bytes) -> tuple[list[bytes], bytes, int]:
    """The methods and targets of the requests, the bytes that are forwarded, and the status of a refusal."""
    requests, found = reader()
    forwarded = b""
    for piece in pieces:
        out, _, refusal = requests.take(piece, 0)
        forwarded += b"".join(out)
        if refusal is not None:
            return found, forwarded, refusal.status
    return found, forwarded, 0


REQUESTS = {
    "bodies": request(HIDDEN) + request(b"a"),
    "no body": request() + request(b"", b"Content-Length: 0") + b"\r\n" + request(HIDDEN),
    "chunks": CHUNKED + request(HIDDEN) + CHUNKED,
    "a bad head behind a body": request(HIDDEN) + b"GET / HTTP/1.1\r\nHost : 127.0.0.1\r\n\r\n",
    "a body without an end": request(HIDDEN)[:-1],
}


@pytest.mark.parametrize("raw", REQUESTS.values(), ids=REQUESTS)
def test_requests_end_where_they_end_however_they_are_cut(raw: bytes) -> None:
    whole = read(raw)
    assert not any(b"/hidden" in target for target in whole[0])
    for at in range(1, len(raw)):
        assert read(raw[:at], raw[at:]) == whole, at
    assert read(*(raw[at : at + 1] for at in range(len(raw)))) == whole


@pytest.mark.parametrize("length", range(len(HIDDEN) + 3))
def test_a_body_is_as_long_as_its_head_says(length: int) -> None:
    """What is behind it is a request, and nothing else is."""
    head = request(b"", b"Content-Length: %d" % length)
    sent = b"x" * length
    targets, forwarded, status = read(head + sent + HIDDEN)
    assert (targets, status) == ([b"POST /mcp", b"GET /hidden"], 0)
    assert forwarded == (head + sent + HIDDEN).replace(b"Host: 127.0.0.1\r\n", b"Host: 127.0.0.1:8765\r\n")
    if length <= len(HIDDEN):
        hidden = read(head + HIDDEN[:length])
        assert hidden == ([b"POST /mcp"], head + HIDDEN[:length], 0)


@pytest.mark.parametrize(
    "field", [b"Content-Length: -1", b"Content-Length: +4", b"Content-Length: 4, 4", b"Transfer-Encoding: x"]
)
def test_a_length_that_two_could_read_differently_is_refused(field: bytes) -> None:
    assert read(request(b"", field) + b"body") == ([], b"", 400)


def test_a_refusal_says_whether_its_answer_may_have_a_body() -> None:
    requests, _ = reader()
    _, _, refusal = requests.take(request(b"body") + b"HEAD / HTTP/1.0\r\nHost : x\r\n\r\n", 0)
    assert isinstance(refusal, Refusal)
    assert not refusal.has_body
