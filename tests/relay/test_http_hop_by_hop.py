"""Header fields that are for one connection only: they do not pass from the server to the client."""

import pytest

from mcpproxy.record.relay import journal
from tests.relay.http_peers import SWITCHING, UPGRADE, Proxy, Upstream, request, stream

pytestmark = pytest.mark.usefixtures("loop")

X = b"X-Bar: 1"
KEPT = [b"Content-Type: text/plain", b"Mcp-Session-Id: abc", b"Keep-Alive: timeout=5"]


def head(*fields: bytes, status: bytes = b"200 OK") -> bytes:
    return b"\r\n".join([b"HTTP/1.1 " + status, *fields, b"Content-Length: 2", b"", b""])


@pytest.mark.parametrize(
    ("sent", "given"),
    [
        ([X, *KEPT, b"Connection: X-Bar"], KEPT),
        ([b"CONNECTION: keep-alive , x-bAR", *KEPT, X], [b"CONNECTION: keep-alive", *KEPT]),
        ([b"Connection: close, X-Bar", X, X, *KEPT], [b"Connection: close", *KEPT]),
        ([b"Connection: close", b"Connection: X-Bar,", *KEPT, X], [b"Connection: close", *KEPT]),
        ([*KEPT, b"Proxy-Authenticate: Basic", b"Proxy-Connection: close"], KEPT),
        (
            [b"Connection: Content-Length, Mcp-Session-Id, Content-Type, X-Bar", X, *KEPT],
            KEPT,
        ),
        ([b"Connection: close", *KEPT, X], [b"Connection: close", *KEPT, X]),
        ([b"Connection: keep-alive", *KEPT, X], [b"Connection: keep-alive", *KEPT, X]),
        ([*KEPT, X], [*KEPT, X]),
    ],
)
def test_what_the_client_gets(
    sent: list[bytes], given: list[bytes], upstream: Upstream, proxy: Proxy
) -> None:
    """The recording has what the server sent, and a note if the client got less. It holds for every answer on
    the connection, however its body ends."""
    client = proxy.connect()
    everything = b""
    for round_number in range(3):
        client.send(request(b"hello"))
        server = upstream.accept() if not round_number else upstream.peers[-1]
        server.read_head()
        assert server.read(5) == b"hello"
        server.send(head(*sent) + b"ok")
        everything += head(*sent) + b"ok"
        expected = head(*given) + b"ok"
        assert client.read(len(expected)) == expected
    upstream.peers[-1].close()
    assert client.rest() == b""
    records = proxy.stop()
    assert stream(records, journal.SERVER) == everything
    assert (b"rewrote-response" in stream(records, journal.NOTE)) == (sent != given)


def test_a_body_that_looks_like_a_head_passes(upstream: Upstream, proxy: Proxy) -> None:
    client = proxy.connect()
    client.send(request(b"hello"))
    server = upstream.accept()
    server.read_head()
    server.read(5)
    body = head(b"Connection: X-Bar", X)
    answer = b"HTTP/1.1 200 OK\r\nConnection: X-Bar\r\nX-Bar: 1\r\nContent-Length: %d\r\n\r\n" % len(body)
    server.send(answer)
    expected = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
    assert client.read(len(expected)) == expected
    client.send(request(b"hello"))  # it does not wait for the body
    server.read_head()
    server.send(body)
    assert client.read(len(body)) == body
    server.send(answer + body)
    assert client.read(len(expected + body)) == expected + body


def test_an_upgrade_keeps_its_fields(upstream: Upstream, proxy: Proxy) -> None:
    client = proxy.connect()
    client.send(UPGRADE)
    server = upstream.accept()
    server.read_head()
    server.send(SWITCHING.replace(b": Upgrade\r\n", b": Upgrade, X-Bar\r\nX-Bar: 1\r\n", 1) + b"frames")
    assert client.read(len(SWITCHING) + 6) == SWITCHING + b"frames"
    client.send(b"more")
    assert server.read(4) == b"more"
    server.send(head(b"Connection: X-Bar", X))  # not HTTP any more
    assert client.read(len(head(b"Connection: X-Bar", X))) == head(b"Connection: X-Bar", X)
