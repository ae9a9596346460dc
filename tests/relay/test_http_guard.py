"""Which clients the HTTP relay serves, and which servers forward mode reaches."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpproxy.base.authority import is_loopback
from mcpproxy.record.relay import journal
from mcpproxy.record.relay.http.guard import Guard, Targets
from mcpproxy.record.relay.http.request_head import Refusal, parse
from tests.relay.http_peers import OK, Proxy, Upstream, kinds, read_journal, request, stream


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.255.0.3", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("127.0.0.1.evil.example", False),
        ("127.1", False),
        ("localhost.evil.example", False),
        ("169.254.169.254", False),
        ("::", False),
        ("::ffff:10.0.0.1", False),
        ("", False),
    ],
)
def test_loopback(host: str, is_ours: bool) -> None:
    assert is_loopback(host) is is_ours


GUARDED: dict[str, tuple[list[str], bytes, bytes, bool]] = {
    "no Origin": ([], b"127.0.0.1:8765", b"", True),
    "own page": ([], b"localhost:8765", b"http://localhost:3000", True),
    "own page, IPv6": ([], b"[::1]:8765", b"http://[::1]:3000", True),
    "the name in --listen": ([], b"here:8765", b"", True),
    "foreign Host": ([], b"evil.example:8765", b"", False),
    "foreign Host that looks like ours": ([], b"localhost.evil.example", b"", False),
    "foreign Origin": ([], b"127.0.0.1", b"https://evil.example", False),
    "foreign Origin that looks like ours": ([], b"127.0.0.1", b"http://localhost.evil.example", False),
    "opaque Origin": ([], b"127.0.0.1", b"null", False),
    "an extension's Origin": ([], b"127.0.0.1", b"chrome-extension://abcdef", False),
    "allowed Origin": (["https://app.example"], b"127.0.0.1", b"https://App.example", True),
    "allowed Origin as Host": (["https://app.example"], b"app.example:8765", b"", True),
    "other port of an allowed Origin": (
        ["https://app.example"],
        b"127.0.0.1",
        b"https://app.example:8443",
        True,
    ),
    "other site": (["https://app.example"], b"127.0.0.1", b"https://evil.example", False),
    "opaque Origin, allowed": (["null"], b"127.0.0.1", b"null", True),
    "everybody allowed": (["*"], b"evil.example", b"https://evil.example", True),
}


@pytest.mark.parametrize(("origins", "host", "origin", "passes"), GUARDED.values(), ids=GUARDED)
def test_guard(origins: list[str], host: bytes, origin: bytes, passes: bool) -> None:
    lines = [b"GET / HTTP/1.1", b"Host: " + host, *([b"Origin: " + origin] if origin else []), b"", b""]
    head = parse(b"\r\n".join(lines))
    guard = Guard(True, ["here"], origins)
    if passes:
        guard.check(head)
    else:
        with pytest.raises(Refusal, match="--allow-origin") as refusal:
            guard.check(head)
        assert refusal.value.status == 403
    Guard(False, [], []).check(head)  # bound to more than loopback, it cannot know


@pytest.mark.parametrize(
    ("allowed", "host", "port", "passes"),
    [
        ([], "127.0.0.1", 1, True),
        ([], "::1", 1, True),
        ([], "10.0.0.1", 80, False),
        (["10.0.0.1"], "10.0.0.1", 80, True),
        (["Api.example:80"], "api.example", 80, True),
        (["api.example:80"], "api.example", 443, False),
        (["api.example"], "x.api.example", 80, False),
        (["[fe80::1]:80"], "fe80::1", 80, True),
        (["*"], "anything.example", 1, True),
    ],
)
def test_targets(allowed: list[str], host: str, port: int, passes: bool) -> None:
    if passes:
        Targets(allowed).check(host, port)
    else:
        with pytest.raises(Refusal, match="--allow-host"):
            Targets(allowed).check(host, port)


def test_a_refusal_is_ours_and_upstream_hears_nothing(upstream: Upstream, tmp_path: Path) -> None:
    with Proxy(str(tmp_path / "t"), upstream.origin) as proxy:
        client = proxy.connect()
        sent = request(b"hello", b"Origin: https://evil.example")
        client.send(sent)
        status, message = client.error()
        assert status == 403
        assert "evil.example" in message
        assert "--allow-origin" in message
        assert upstream.is_left_alone()
        client.close()
        records = proxy.stop()
    assert stream(records, journal.CLIENT) == sent
    assert kinds(records)[:4] == [journal.CONNECT, journal.CLIENT, journal.NOTE, journal.OWN]
    assert json.loads(stream(records, journal.CONNECT))["upstream"] == f"127.0.0.1:{upstream.port}"


FOREIGN = request(b"hello", b"Origin: http://evil.example").replace(b"127.0.0.1:8765", b"evil.example")
FORBIDDEN = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"


def test_the_servers_own_guard_can_be_tested(upstream: Upstream, tmp_path: Path) -> None:
    """If every origin is allowed, the server gets Origin as it was sent, and its refusal is its own.

    Its check of Host cannot be tested through us, because Host always names the server.
    """
    with Proxy(str(tmp_path / "t"), upstream.origin, "--allow-origin", "*") as proxy:
        client = proxy.connect()
        for sent, origin, answer in (
            (FOREIGN, b"http://evil.example", FORBIDDEN),
            (request(b"hello", b"Origin: http://localhost:3000"), b"http://localhost:3000", OK),
        ):
            client.send(sent)
            server = upstream.peers[0] if upstream.peers else upstream.accept()
            head = server.read_head()
            assert b"\r\nOrigin: %s\r\n" % origin in head
            assert b"\r\nHost: 127.0.0.1:%d\r\n" % upstream.port in head
            assert server.read(5) == b"hello"
            server.send(answer)
            assert client.read(len(answer)) == answer
        records = proxy.stop()
    assert stream(records, journal.SERVER) == FORBIDDEN + OK
    assert journal.OWN not in kinds(records)


TO_THE_PROXY = (b"pRoxy-Connection: keep-alive", b"Proxy-Authorization: Basic x", b"proxy-authorization:y")


@pytest.mark.parametrize("line", [b"POST /mcp HTTP/1.1", b"POST /elsewhere HTTP/1.0"])
def test_fields_for_a_proxy_are_not_forwarded(tmp_path: Path, upstream: Upstream, line: bytes) -> None:
    with Proxy(str(tmp_path / "t"), f"{upstream.origin}/mcp") as proxy:
        client = proxy.connect()
        sent = request(b"hello", b"X: 1", *TO_THE_PROXY, b"Authorization: Bearer z", line=line)
        client.send(sent)
        server = upstream.accept()
        head = server.read_head()
        assert server.read(5) == b"hello"
        server.send(OK)
        assert client.read(len(OK)) == OK
        records = proxy.stop()
    names = [field.partition(b":")[0] for field in head.split(b"\r\n")[1:] if field]
    assert names == [b"Host", b"X", b"Authorization", b"Content-Length"]
    assert stream(records, journal.CLIENT) == sent


def test_an_upgrade_does_not_forward_fields_for_a_proxy(tmp_path: Path, upstream: Upstream) -> None:
    with Proxy(str(tmp_path / "t"), upstream.origin) as proxy:
        client = proxy.connect()
        asks = (b"Connection: Upgrade", b"Upgrade: websocket", *TO_THE_PROXY)
        client.send(request(b"", *asks, line=b"GET / HTTP/1.1"))
        assert b"roxy-" not in upstream.accept().read_head()


# Forward mode.


@pytest.fixture
def forward(loop: str, tmp_path: Path) -> Iterator[Proxy]:
    with Proxy(str(tmp_path / "t"), "--forward") as started:
        yield started


def test_a_url_as_target_goes_to_that_server_under_its_own_name(upstream: Upstream, forward: Proxy) -> None:
    url = b"http://localhost:%d/mcp?a=b" % upstream.port
    client = forward.connect()
    sent = request(
        b"hello",
        b"Proxy-Connection: keep-alive",
        b"Proxy-Authorization: Basic x",
        line=b"POST " + url + b" HTTP/1.1",
    )
    client.send(sent)
    server = upstream.accept()
    expected = b"POST /mcp?a=b HTTP/1.1\r\nHost: localhost:%d\r\nContent-Length: 5\r\n\r\n" % upstream.port
    assert server.read_head() == expected
    assert server.read(5) == b"hello"
    server.send(OK)
    assert client.read(len(OK)) == OK
    records = forward.stop()
    assert stream(records, journal.CLIENT) == sent
    assert json.loads(stream(records, journal.CONNECT))["upstream"] == f"localhost:{upstream.port}"


def test_a_client_may_turn_to_another_server(upstream: Upstream, forward: Proxy) -> None:
    other = Upstream()
    client = forward.connect()
    for server in (upstream, other, other):
        client.send(request(line=b"GET %s/ HTTP/1.1" % server.origin.encode()))
        peer = server.peers[0] if server.peers else server.accept()
        peer.read_head()
        peer.send(OK)
        assert client.read(len(OK)) == OK
    assert upstream.peers[0].rest() == b""
    records = forward.stop()
    other.close()
    assert [stream(records, journal.SERVER, number) for number in (1, 2)] == [OK, OK + OK]
    assert kinds(records, 1) == [
        journal.CONNECT,
        journal.CLIENT,
        journal.SERVER,
        journal.CLIENT_EOF,
        journal.SERVER_EOF,
    ]


def test_connect_is_a_tunnel(upstream: Upstream, forward: Proxy) -> None:
    client = forward.connect()
    target = b"127.0.0.1:%d" % upstream.port
    proxied = b"\r\n".join(TO_THE_PROXY)
    client.send(b"CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s\r\n\r\n\x16\x03early" % (target, target, proxied))
    assert client.read_head().startswith(b"HTTP/1.1 200 ")
    server = upstream.accept()
    assert server.read(7) == b"\x16\x03early"
    server.send(b"\x00\n\xff")
    assert client.read(3) == b"\x00\n\xff"
    client.end()
    assert server.rest() == b""
    server.close()
    assert client.rest() == b""
    records = forward.stop()
    assert kinds(records) == [
        journal.CONNECT,
        journal.CLIENT,
        journal.OWN,
        journal.OPAQUE,
        journal.CLIENT,
        journal.SERVER,
        journal.CLIENT_EOF,
        journal.SERVER_EOF,
    ]


def test_what_waits_for_a_tunnel_that_cannot_be_opened_is_recorded(forward: Proxy) -> None:
    client = forward.connect()
    sent = b"CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\nearly"
    client.send(sent)
    assert client.error()[0] == 502
    assert stream(forward.stop(), journal.CLIENT) == sent


NOT_FORWARDED: dict[str, tuple[bytes, int, str]] = {
    "another machine": (b"GET http://10.255.255.1/ HTTP/1.1", 403, "--allow-host 10.255.255.1"),
    "another machine by CONNECT": (b"CONNECT internal.example:443 HTTP/1.1", 403, "--allow-host"),
    "metadata of a cloud": (b"GET http://169.254.169.254/latest HTTP/1.1", 403, "--allow-host"),
    "all addresses": (b"GET http://0.0.0.0/ HTTP/1.1", 403, "--allow-host"),
    "a path": (b"GET / HTTP/1.1", 400, "names no server"),
    "https": (b"GET https://localhost/ HTTP/1.1", 400, "CONNECT"),
    "nobody there": (b"GET http://127.0.0.1:1/ HTTP/1.1", 502, "refused"),
    "nobody there for CONNECT": (b"CONNECT 127.0.0.1:1 HTTP/1.1", 502, "refused"),
}


def test_forward_mode_is_no_open_relay(forward: Proxy) -> None:
    for line, status, words in NOT_FORWARDED.values():
        client = forward.connect()
        client.send(request(line=line))
        got, message = client.error()
        assert got == status
        assert words in message


def test_forward_mode_goes_where_it_is_allowed_to(upstream: Upstream, tmp_path: Path) -> None:
    with Proxy(str(tmp_path / "t"), "--forward", "--allow-host", "nowhere.invalid") as proxy:
        client = proxy.connect()
        client.send(request(line=b"GET http://nowhere.invalid/ HTTP/1.1"))
        status, message = client.error()
        assert (status, "is not found" in message) == (502, True)


def test_a_foreign_page_may_not_use_forward_mode(upstream: Upstream, forward: Proxy) -> None:
    line = b"GET %s/ HTTP/1.1" % upstream.origin.encode()
    client = forward.connect()
    client.send(request(b"", b"Origin: https://evil.example", line=line))
    assert client.error()[0] == 403
    assert upstream.is_left_alone()


def test_the_record_of_what_was_refused_in_forward_mode(forward: Proxy) -> None:
    client = forward.connect()
    client.send(request(line=b"GET http://10.0.0.1/ HTTP/1.1"))
    assert client.error()[0] == 403
    forward.stop()
    (connect,) = [payload for kind, _, payload in read_journal(forward.trace) if kind == journal.CONNECT]
    assert json.loads(connect)["upstream"] == ""
