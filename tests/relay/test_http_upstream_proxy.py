"""The relay before a server that it reaches through another HTTP proxy."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpproxy.cli.commands import http
from mcpproxy.record.relay import journal
from tests.peers.connect_proxy import ConnectProxy, connect_proxy
from tests.relay.http_peers import OK, Peer, Proxy, Upstream, request, stream
from tests.relay.test_http_tls import SERVER, server_context

pytestmark = pytest.mark.usefixtures("loop")

CA = ("--ca", f"{SERVER}.pem")


@pytest.fixture
def between() -> Iterator[ConnectProxy]:
    with connect_proxy() as proxy:
        yield proxy


@pytest.fixture
def secure() -> Iterator[Upstream]:
    server = Upstream(server_context(SERVER))
    yield server
    server.close()


@pytest.fixture
def plain() -> Iterator[Upstream]:
    server = Upstream()
    yield server
    server.close()


def exchange(client: Peer, upstream: Upstream, body: bytes) -> bytes:
    """Send a request and answer it; return the head that the server gets."""
    sending = client.send_aside(request(body))
    server = upstream.accept()
    head = server.read_head()
    assert server.read(len(body)) == body
    sending.join()
    server.send(OK)
    assert client.read(len(OK)) == OK
    return head


def test_a_tunnel_to_a_server_over_tls(
    secure: Upstream, between: ConnectProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", between.url.replace("//", "//user:word@"))
    between.credentials = b"Basic dXNlcjp3b3Jk"
    with Proxy(str(tmp_path / "t"), f"https://server.example:{secure.port}", *CA) as proxy:
        assert proxy.greeting.endswith(f" through the proxy {between.url} of HTTPS_PROXY\n")
        head = exchange(proxy.connect(), secure, b"q" * (4 << 20))
        records = proxy.stop()
        said = proxy.stderr.read()
    assert b"Host: server.example:%d\r\n" % secure.port in head
    assert b"\nProxy-" not in head
    lines = b"CONNECT %s HTTP/1.1\r\nHost: %s\r\nProxy-Authorization: Basic dXNlcjp3b3Jk\r\n\r\n"
    assert between.asked == [lines % ((b"server.example:%d" % secure.port,) * 2)]
    assert stream(records, journal.CLIENT) == request(b"q" * (4 << 20))
    assert stream(records, journal.SERVER) == OK
    assert not any(secret in said + proxy.greeting.encode() for secret in (b"word", b"dXNlcjp3b3Jk"))
    assert not any(b"dXNlcjp3b3Jk" in payload for _, _, payload in records)


def test_requests_to_a_server_without_tls(
    plain: Upstream, between: ConnectProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", between.url)
    with Proxy(str(tmp_path / "t"), f"http://server.example:{plain.port}/api/mcp") as proxy:
        exchange(proxy.connect(), plain, b"hello")
        records = proxy.stop()
    [head] = between.asked
    assert head.startswith(b"POST http://server.example:%d/api/mcp HTTP/1.1\r\n" % plain.port)
    assert stream(records, journal.CLIENT) == request(b"hello")


def test_servers_of_a_forward_proxy(
    plain: Upstream, between: ConnectProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", between.url)
    allowed = f"server.example:{plain.port}".encode()
    with Proxy(str(tmp_path / "t"), "--forward", "--allow-host", allowed.decode()) as proxy:
        client = proxy.connect()
        client.send(b"CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (allowed, allowed))
        assert client.read_head() == b"HTTP/1.1 200 Connection established\r\n\r\n"
        server = plain.accept()
        server.send(b"first")
        assert client.read(5) == b"first"
        asking = proxy.connect()
        asking.send(b"GET http://%s/x HTTP/1.1\r\nHost: %s\r\n\r\n" % (allowed, allowed))
        answering = plain.accept()
        assert answering.read_head().startswith(b"GET /x HTTP/1.1\r\n")
        answering.send(OK)
        assert asking.read(len(OK)) == OK
        local = proxy.connect()
        local.send(b"GET %s/y HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % (plain.origin.encode(), plain.port))
        plain.accept().send(OK)
        assert local.read(len(OK)) == OK
    assert [head.split(b" HTTP")[0] for head in between.asked] == [
        b"CONNECT " + allowed,
        b"GET http://%s/x" % allowed,
    ]


FAILING = {
    "407": "wants credentials (407); write http://USER:PASSWORD@HOST:PORT there",
    "403": "makes no connection to the server (HTTP 403)",
    "no proxy": "does not answer as a proxy",
    "silent": "does not answer as a proxy",
}


@pytest.mark.parametrize("how", FAILING)
def test_a_proxy_that_makes_no_tunnel(
    how: str, between: ConnectProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", between.url)
    between.answer = {"no proxy": b"220 mail.example\r\n\r\n", "silent": b""}.get(how)
    between.status = int(how) if between.answer is None else 0
    why = f"the proxy {between.url} of HTTPS_PROXY {FAILING[how]}"
    with Proxy(str(tmp_path / "t"), "https://server.example:9") as proxy:
        for _ in range(2):
            client = proxy.connect()
            client.send(request(b"hello"))
            assert client.error() == (502, f"mcpproxy: {why}")
        records = proxy.stop()
        said = proxy.stderr.read().decode()
    assert said.count(why) == 1
    assert why.encode() in stream(records, journal.NOTE)


def test_a_proxy_that_is_down(between: ConnectProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    between.close()
    monkeypatch.setenv("HTTP_PROXY", between.url)
    with Proxy(str(tmp_path / "t"), "http://server.example:9") as proxy:
        client = proxy.connect()
        client.send(request(b"hello"))
        status, message = client.error()
    assert status == 502
    name = f"the proxy {between.url} of HTTP_PROXY"
    assert message == f"mcpproxy: cannot connect to {name} (Connection refused); is it running?"


def test_a_proxy_that_wants_credentials_for_a_request(
    between: ConnectProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer is the client's, which has no part in the field between us and it."""
    monkeypatch.setenv("HTTP_PROXY", between.url)
    between.status = 407
    with Proxy(str(tmp_path / "t"), "http://server.example:9") as proxy:
        for _ in range(2):
            client = proxy.connect()
            client.send(request())
            assert client.read_head() == b"HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n"
        records = proxy.stop()
        said = proxy.stderr.read().decode()
    assert said.count(f"the proxy {between.url} of HTTP_PROXY wants credentials (407)") == 1
    assert b"wants credentials" in stream(records, journal.NOTE)


def test_this_proxy_is_not_the_proxy_to_its_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell in which clients are started names it for them."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:8765")
    options = http.parse(["--forward", "--allow-host", "a.example"])
    assert http.proxy_of(options, "127.0.0.1:8765")("a.example", 80, False) is None
    assert http.proxy_of(options, "127.0.0.1:8766")("a.example", 80, False) is not None
