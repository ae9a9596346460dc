"""The HTTP relay under load: many streams, large bodies, bounded memory; and idle, when it does nothing."""

import hashlib
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpproxy.base.ready import is_readable, is_writable
from mcpproxy.record.relay import journal
from tests.relay.hosts import DEADLINE_S
from tests.relay.http_peers import Peer, Proxy, Upstream, read_journal, request, stream

STREAMS = 300
BODY_BYTES = 50 << 20
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


@pytest.fixture
def most_streams() -> Iterator[int]:
    """How many streams may be open: each has two sockets here, and two in the proxy."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield sys.maxsize if hard == resource.RLIM_INFINITY else (hard - 100) // 2
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def open_streams(upstream: Upstream, proxy: Proxy, count: int) -> list[tuple[Peer, Peer]]:
    """Clients and servers in the middle of an SSE stream each."""
    return [open_stream(asks(proxy), upstream) for _ in range(count)]


def asks(proxy: Proxy) -> Peer:
    """A client that asks for a stream."""
    client = proxy.connect()
    client.send(request(b"", b"Accept: text/event-stream", line=b"GET /mcp HTTP/1.1"))
    return client


def open_stream(client: Peer, upstream: Upstream) -> tuple[Peer, Peer]:
    """The client, and the server that has begun to answer it."""
    server = upstream.accept()
    server.read_head()
    server.send(HEAD + b"data: first\n\n")
    assert client.read(len(HEAD) + 13) == HEAD + b"data: first\n\n"
    return client, server


def is_passed_on(upstream: Upstream, proxy: Proxy) -> bool:
    """Whether a client is connected to the server before the proxy says that others wait."""
    end = time.monotonic() + DEADLINE_S
    while not is_readable(upstream.listener, 0.01):
        if is_readable(proxy.stderr):
            return False
        assert time.monotonic() < end, "it neither passes on the client nor says why"
    return True


def test_many_streams_open_at_once(upstream: Upstream, proxy: Proxy, most_streams: int) -> None:
    count = min(STREAMS, most_streams)
    pairs = open_streams(upstream, proxy, count)
    for number, (_, server) in enumerate(pairs):
        server.send(b"data: %03d\n\n" % number)
    for number, (client, _) in enumerate(pairs):
        assert client.read(11) == b"data: %03d\n\n" % number
    for client, _ in pairs:
        client.close()
    for _, server in pairs:
        assert server.rest() == b""
    records = proxy.stop()
    for number in range(count):
        assert stream(records, journal.SERVER, number + 1).endswith(b"data: %03d\n\n" % number)


def test_where_few_sockets_are_allowed_clients_wait(upstream: Upstream, tmp_path: Path) -> None:
    """Each that is accepted reaches the server. It is said once that others wait, and again the next time."""
    with Proxy(str(tmp_path / "t"), upstream.origin, fault="few sockets") as proxy:
        pairs: list[tuple[Peer, Peer]] = []
        client = asks(proxy)
        while is_passed_on(upstream, proxy):
            pairs.append(open_stream(client, upstream))
            client = asks(proxy)
        said = proxy.stderr.readline()
        allowed = int(said.split()[1])
        assert said == b"mcpproxy: %d clients are all that this system allows; others wait\n" % allowed
        while len(pairs) < allowed:  # it may say so before the last of them is connected to the server
            pairs.append(open_stream(client, upstream))
            client = asks(proxy)
        waiting = [client, asks(proxy)]
        for client, server in pairs:
            server.send(b"data: 2\n\n")
            assert client.read(9) == b"data: 2\n\n"
        for number, client in enumerate(waiting):
            pairs[number][0].reset()
            assert pairs[number][1].is_reset()
            server = upstream.accept()
            server.read_head()
            server.send(HEAD)
            assert client.read(len(HEAD)) == HEAD
            pairs.append((client, server))
        assert not is_readable(proxy.stderr, 0)
        for client, server in pairs[-2:]:
            client.reset()
            assert server.is_reset()
        open_streams(upstream, proxy, 2)
        assert proxy.stderr.readline() == said


def test_an_idle_stream_costs_little(upstream: Upstream, proxy: Proxy, most_streams: int) -> None:
    open_streams(upstream, proxy, 50)
    count = min(500, most_streams - 50)
    before_kib = proxy.status("VmRSS")
    open_streams(upstream, proxy, count)
    assert (proxy.status("VmRSS") - before_kib) / count < 6


def test_nothing_happens_while_nothing_happens(upstream: Upstream, proxy: Proxy) -> None:
    """Voluntary context switches count every time that the process went to sleep, so every wake-up."""
    pairs = open_streams(upstream, proxy, 5)

    def sleeps() -> int:
        while Path(f"/proc/{proxy.process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "S":
            pass
        return proxy.status("voluntary_ctxt_switches")

    before = sleeps()
    assert not any(is_readable(client.sock, 0.5 / len(pairs)) for client, _ in pairs)
    assert sleeps() == before
    pairs[0][1].send(b"data: 2\n\n")
    assert pairs[0][0].read(9) == b"data: 2\n\n"
    assert sleeps() > before


def test_large_bodies_both_ways(upstream: Upstream, proxy: Proxy) -> None:
    block = hashlib.sha256(b"block").digest() * 2048
    body = block * (BODY_BYTES // len(block))
    client = proxy.connect()
    sending = client.send_aside(request(body))
    server = upstream.accept()
    server.read_head()
    assert server.read(len(body)) == body
    sending.join()
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    sending = server.send_aside(answer)
    assert client.read(len(answer)) == answer
    sending.join()
    assert proxy.status("VmHWM") < 128 << 10
    records = proxy.stop()
    assert stream(records, journal.CLIENT) == request(body)
    assert stream(records, journal.SERVER) == answer


def test_both_directions_full_at_once(upstream: Upstream, proxy: Proxy) -> None:
    """Both peers write, before they read, more than all buffers between them hold."""
    size = 16 << 20
    client = proxy.connect()
    sent = request(b"c" * size)
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"s" * size
    writers = [client.send_aside(sent)]
    server = upstream.accept()
    server.read_head()
    writers.append(server.send_aside(answer))
    assert client.read(len(answer)) == answer
    assert server.read(size) == b"c" * size
    for writer in writers:
        writer.join()


def test_a_client_that_does_not_read_stops_the_server(upstream: Upstream, proxy: Proxy) -> None:
    client = proxy.connect()
    client.send(request(b"", line=b"GET / HTTP/1.1"))
    server = upstream.accept()
    server.read_head()
    sent = 0
    while is_writable(server.sock, 0.5):
        sent += server.sock.send(b"x" * 65536)
        assert sent < 64 << 20
    assert proxy.status("VmHWM") < 64 << 10
    assert client.read(sent) == b"x" * sent


def test_many_short_connections_leave_nothing_behind(upstream: Upstream, proxy: Proxy) -> None:
    def descriptors() -> int:
        return len(list(Path(f"/proc/{proxy.process.pid}/fd").iterdir()))

    def converse(count: int) -> None:
        for _ in range(count):
            client = proxy.connect()
            client.send(request(b"x"))
            server = upstream.accept()
            server.read_head()
            assert server.read(1) == b"x"
            server.close()
            assert client.rest() == b""
            client.close()

    converse(20)
    before = descriptors()
    converse(100)
    assert descriptors() <= before + 2
    proxy.stop()
    last = max(number for _, number, _ in read_journal(proxy.trace))
    assert last == 120
