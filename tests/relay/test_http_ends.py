"""How connections end through the HTTP relay: FIN as FIN, reset as reset, and what we answer ourselves."""

import json
import signal
import socket
import sys
import time
from pathlib import Path

import pytest

from mcpproxy.record.relay import journal
from mcpproxy.record.relay.crash_buffer import left_records
from mcpproxy.record.relay.journal import DROPPED, RESET
from tests.relay.hosts import DEADLINE_S, kill
from tests.relay.http_peers import (
    FORKED,
    OK,
    SWITCHING,
    UPGRADE,
    Peer,
    Proxy,
    Record,
    Upstream,
    kinds,
    read_journal,
    request,
    stream,
)

pytestmark = pytest.mark.usefixtures("loop")

EVENT = b"9\r\ndata: 1\n\n\r\n"


def send_until_broken(peer: Peer, data: bytes) -> None:
    """Send ``data`` again and again until nobody takes it any more."""
    while True:
        peer.send(data)


BROKEN = (ConnectionResetError, BrokenPipeError)


def ends(records: list[Record], connection: int = 1) -> list[tuple[int, bytes]]:
    """How both sides of a connection ended, in order."""
    both = (journal.CLIENT_EOF, journal.SERVER_EOF)
    return [(kind, payload) for kind, number, payload in records if number == connection and kind in both]


def notes(records: list[Record]) -> list[str]:
    return [json.loads(payload)["what"] for kind, _, payload in records if kind == journal.NOTE]


def open_stream(upstream: Upstream, proxy: Proxy) -> tuple[Peer, Peer]:
    """A client and a server in the middle of an SSE stream."""
    client = proxy.connect()
    client.send(request(b"", line=b"GET /mcp HTTP/1.1"))
    server = upstream.accept()
    server.read_head()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    server.send(head + EVENT)
    assert client.read(len(head + EVENT)) == head + EVENT
    return client, server


def test_half_close_is_passed_on_and_the_answer_still_arrives(upstream: Upstream, proxy: Proxy) -> None:
    client = proxy.connect()
    client.send(request(b"hello"))
    client.end()
    server = upstream.accept()
    server.read_head()
    assert server.rest() == b"hello"
    server.send(OK)
    server.end()
    assert client.rest() == OK
    records = proxy.stop()
    assert ends(records) == [(journal.CLIENT_EOF, b""), (journal.SERVER_EOF, b"")]


def test_the_server_may_end_first(upstream: Upstream, proxy: Proxy) -> None:
    client = proxy.connect()
    client.send(request(b"hello"))
    server = upstream.accept()
    server.read_head()
    server.read(5)
    server.send(b"HTTP/1.0 200 OK\r\n\r\nuntil the end")
    server.end()
    assert client.rest() == b"HTTP/1.0 200 OK\r\n\r\nuntil the end"
    client.close()
    assert server.rest() == b""
    assert ends(proxy.stop()) == [(journal.SERVER_EOF, b""), (journal.CLIENT_EOF, b"")]


def test_a_client_that_leaves_is_seen_upstream(upstream: Upstream, proxy: Proxy) -> None:
    client, server = open_stream(upstream, proxy)
    client.close()
    assert server.rest() == b""
    server.close()
    assert ends(proxy.stop())[0] == (journal.CLIENT_EOF, b"")


def test_a_client_that_resets_is_a_reset_upstream(upstream: Upstream, proxy: Proxy) -> None:
    client, server = open_stream(upstream, proxy)
    client.reset()
    assert server.is_reset()
    assert ends(proxy.stop()) == [(journal.CLIENT_EOF, RESET), (journal.SERVER_EOF, DROPPED)]


def test_a_client_that_left_and_is_written_to_is_a_reset_upstream(upstream: Upstream, proxy: Proxy) -> None:
    client, server = open_stream(upstream, proxy)
    client.close()
    assert server.rest() == b""
    with pytest.raises(BROKEN):
        send_until_broken(server, EVENT)


def test_a_stream_that_upstream_cuts_short_stays_cut_short(upstream: Upstream, proxy: Proxy) -> None:
    client, server = open_stream(upstream, proxy)
    server.send(b"ff\r\ndata: half")
    server.end()
    assert client.rest() == b"ff\r\ndata: half"
    client.close()
    assert server.rest() == b""
    assert ends(proxy.stop())[0] == (journal.SERVER_EOF, b"")


def test_an_upstream_that_resets_is_a_reset_for_the_client(upstream: Upstream, proxy: Proxy) -> None:
    client, server = open_stream(upstream, proxy)
    server.reset()
    assert client.is_reset()
    assert ends(proxy.stop()) == [(journal.SERVER_EOF, RESET), (journal.CLIENT_EOF, DROPPED)]


def test_a_reset_after_the_end_is_passed_on(upstream: Upstream, proxy: Proxy) -> None:
    """A kept connection: the server has closed it, the client asks once more."""
    client = proxy.connect()
    client.send(request(b"a"))
    server = upstream.accept()
    server.read_head()
    server.read(1)
    server.send(OK)
    server.close()
    assert client.rest() == OK
    with pytest.raises(BROKEN):
        send_until_broken(client, request(b"b"))


def test_an_answer_of_a_server_that_stopped_reading_is_delivered(upstream: Upstream, proxy: Proxy) -> None:
    answer = b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    client = proxy.connect()
    client.send(request(b"x" * (32 << 20))[:1000])
    server = upstream.accept()
    server.read_head()
    server.send(answer)
    server.close()  # with bytes unread: a reset follows the answer
    assert client.read(len(answer)) == answer
    with pytest.raises(BROKEN):
        send_until_broken(client, b"x" * 65536)


REFUSED: dict[str, tuple[bytes, int]] = {
    "bare LF": (b"GET / HTTP/1.1\nHost: 127.0.0.1\r\n\r\n", 400),
    "bare LF in an unfinished head": (b"GET / HTTP/1.1\nHost:", 400),
    "two lengths": (
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        400,
    ),
    "both lengths": (
        b"POST / HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    "TLS to a plain port": (b"\x16\x03\x01\x02\x00\x01", 400),
    "HTTP/2 preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    "an endless head": (b"GET / HTTP/1.1\r\nX: " + b"x" * 66000, 431),
    "another server in the target": (b"GET http://evil.example/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 400),
    "CONNECT": (b"CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n", 400),
    "Connection that names Host": (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: host\r\n\r\n", 400),
    "foreign Host": (b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403),
    "foreign Origin": (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://evil.example\r\n\r\n", 403),
    "broken chunks": (
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        400,
    ),
}


def test_what_is_refused_is_answered_recorded_and_goes_nowhere(upstream: Upstream, proxy: Proxy) -> None:
    for sent, status in REFUSED.values():
        client = proxy.connect()
        client.send(sent)
        assert client.error()[0] == status
        client.close()
    records = proxy.stop()
    for number, (sent, status) in enumerate(REFUSED.values(), start=1):
        assert stream(records, journal.CLIENT, number) == sent
        assert stream(records, journal.OWN, number).startswith(b"HTTP/1.1 %d " % status)
        assert stream(records, journal.SERVER, number) == b""
        assert journal.NOTE in kinds(records, number)
        assert {kind for kind, _ in ends(records, number)} == {journal.CLIENT_EOF, journal.SERVER_EOF}
    assert notes(records) == ["refused"] * len(REFUSED)


def test_a_request_smuggled_behind_a_refused_one_goes_nowhere(upstream: Upstream, proxy: Proxy) -> None:
    client = proxy.connect()
    client.send(
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 0\r\n\r\n"
        + request(b"smuggled")
    )
    assert client.error()[0] == 400
    assert upstream.is_left_alone()


def test_a_bad_request_after_an_answered_one_gets_its_answer(upstream: Upstream, proxy: Proxy) -> None:
    client = proxy.connect()
    client.send(request(b"good"))
    server = upstream.accept()
    server.read_head()
    server.send(OK)
    assert client.read(len(OK)) == OK
    client.send(b"GET / HTTP/1.1\r\nHost : 127.0.0.1\r\n\r\n")
    assert client.error()[0] == 400
    assert server.read(4) == b"good"
    assert server.rest() == b""


def test_a_bad_request_behind_an_unanswered_one_lets_that_be_answered(
    upstream: Upstream, proxy: Proxy
) -> None:
    """An answer of ours in the middle would be taken for the server's."""
    client = proxy.connect()
    client.send(request(b"good") + b"GET / HTTP/1.1\r\nHost : 127.0.0.1\r\n\r\n")
    server = upstream.accept()
    server.read_head()
    assert server.rest() == b"good"
    server.send(OK)
    server.close()
    assert client.rest() == OK
    client.close()
    records = proxy.stop()
    assert notes(records) == ["refused"]
    assert stream(records, journal.OWN) == b""


def test_a_bad_request_behind_one_that_waits_for_its_server_lets_that_be_answered(
    upstream: Upstream, tmp_path: Path
) -> None:
    """The look-up of a name takes longer than reading both requests."""
    with Proxy(str(tmp_path / "t"), f"http://localhost:{upstream.port}") as proxy:
        client = proxy.connect()
        client.send(request(b"good") + b"GET / HTTP/1.1\r\nHost : 127.0.0.1\r\n\r\n")
        server = upstream.accept()
        server.read_head()
        assert server.rest() == b"good"
        server.send(OK)
        server.close()
        assert client.rest() == OK
        client.close()
        is_passed_on(proxy, upstream)
        assert notes(proxy.stop()) == ["refused"]


# The client ends, or the server does, before the answer to an upgrade.


def test_what_was_sent_before_an_upgrade_was_declined_goes_on_although_the_client_has_ended(
    upstream: Upstream, proxy: Proxy
) -> None:
    client = proxy.connect()
    client.send(UPGRADE + request(b"next"))
    client.end()
    server = upstream.accept()
    server.read_head()
    is_passed_on(proxy, upstream)
    server.send(OK)
    server.read_head()
    assert server.rest() == b"next"
    server.send(OK)
    server.close()
    assert client.rest() == OK + OK
    records = proxy.stop()
    assert stream(records, journal.CLIENT).startswith(UPGRADE + request(b"next"))


def test_what_was_sent_before_an_upgrade_goes_on_although_the_client_has_ended(
    upstream: Upstream, proxy: Proxy
) -> None:
    client = proxy.connect()
    client.send(UPGRADE + b"\x81\x00early")
    client.end()
    server = upstream.accept()
    server.read_head()
    is_passed_on(proxy, upstream)
    server.send(SWITCHING)
    assert server.rest() == b"\x81\x00early"
    server.close()
    assert client.rest() == SWITCHING


@pytest.mark.parametrize("size", [0, 4, 1 << 20])
def test_a_server_that_ends_before_it_answers_an_upgrade_gets_what_follows(
    size: int, upstream: Upstream, proxy: Proxy
) -> None:
    client = proxy.connect()
    sending = client.send_aside(UPGRADE + request(bytes(size)))
    server = upstream.accept()
    server.read_head()
    is_passed_on(proxy, upstream)
    server.end()
    assert client.rest() == b""
    server.read_head()
    assert server.read(size) == bytes(size)
    sending.join()
    client.end()
    assert server.rest() == b""
    is_passed_on(proxy, upstream)
    assert notes(proxy.stop()) == []


def is_passed_on(proxy: Proxy, upstream: Upstream) -> None:
    """Let the proxy serve another client; it has handled what came before."""
    client = proxy.connect()
    client.send(request(b"other"))
    server = upstream.accept()
    server.read_head()
    assert server.read(5) == b"other"
    server.send(OK)
    assert client.read(len(OK)) == OK
    client.close()
    server.close()


def nobody() -> int:
    """A port where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_an_upstream_that_is_down(tmp_path: Path) -> None:
    with Proxy(str(tmp_path / "t"), f"http://127.0.0.1:{nobody()}") as proxy:
        client = proxy.connect()
        client.send(request(b"hello") + b"more")
        status, message = client.error()
        assert status == 502
        assert "Connection refused" in message
        client.close()
        records = proxy.stop()
    assert stream(records, journal.CLIENT) == request(b"hello") + b"more"
    assert kinds(records)[:4] == [journal.CONNECT, journal.CLIENT, journal.NOTE, journal.OWN]
    assert notes(records) == ["upstream-failed"]


def test_an_upstream_that_is_down_is_told_once_until_it_is_reached(tmp_path: Path) -> None:
    port = nobody()
    with Proxy(str(tmp_path / "t"), f"http://127.0.0.1:{port}") as proxy:

        def fails() -> bool:
            client = proxy.connect()
            client.send(request(b"hello"))
            return client.error()[0] == 502

        assert all(fails() for _ in range(3))
        with socket.create_server(("127.0.0.1", port)) as server:
            client = proxy.connect()
            client.send(request(b"hello"))
            reached = Peer(server.accept()[0])
            reached.read_head()
            assert reached.read(5) == b"hello"
            reached.send(OK)
            assert client.read(len(OK)) == OK
            reached.close()
        assert all(fails() for _ in range(3))
        proxy.stop()
        said = proxy.stderr.read().decode()
    why = f"cannot connect to 127.0.0.1:{port} (Connection refused); is the server running?"
    assert said.splitlines() == [f"mcpproxy: {why}"] * 2


def test_an_upstream_without_an_address(tmp_path: Path) -> None:
    with Proxy(str(tmp_path / "t"), "http://nowhere.invalid") as proxy:
        clients = [proxy.connect() for _ in range(3)]
        for client in clients:
            client.send(request(b"hello"))
        for client in clients:
            status, message = client.error()
            assert status == 502
            assert "nowhere.invalid is not found" in message


def test_head_gets_no_body(tmp_path: Path) -> None:
    with Proxy(str(tmp_path / "t"), f"http://127.0.0.1:{nobody()}") as proxy:
        client = proxy.connect()
        client.send(request(line=b"HEAD / HTTP/1.1"))
        head, _, body = client.rest().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 502 ")
    assert body == b""


def test_an_upstream_that_does_not_answer(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        port = server.getsockname()[1]
        # Two connections fill the backlog; what comes after them is not even refused.
        filling = [socket.socket() for _ in range(2)]
        for one in filling:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        with Proxy(str(tmp_path / "t"), f"http://127.0.0.1:{port}", connect_s=0.3) as proxy:
            client = proxy.connect()
            client.send(request(b"hello"))
            status, message = client.error()
            assert status == 504
            assert "did not answer in time" in message
        for one in filling:
            one.close()


def asking(port: int) -> int:
    """How many connections to a port on loopback are asked for and not established."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return sum(line.split()[2].endswith(f":{port:04X}") and line.split()[3] == "02" for line in lines)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc/net/tcp")
def test_a_request_that_waited_for_its_connection_is_noted_when_it_is_sent(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        server.settimeout(DEADLINE_S)
        port = server.getsockname()[1]
        filling = [socket.socket() for _ in range(2)]
        for one in filling:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        others = asking(port)
        with Proxy(str(tmp_path / "t"), f"http://127.0.0.1:{port}") as proxy:
            client = proxy.connect()
            client.send(request(b"hello"))
            deadline = time.monotonic() + DEADLINE_S
            while asking(port) <= others and time.monotonic() < deadline:
                time.sleep(0.005)
            for one in filling:
                one.close()
            while not (accepted := server.accept()[0]).recv(1 << 16):  # the system asks again after a second
                accepted.close()
            records = proxy.stop()
            accepted.close()
    told = [kind for kind, _, _ in records]
    late = next(
        at for at, (kind, _, payload) in enumerate(records) if kind == journal.NOTE and b"late" in payload
    )
    assert told.index(journal.CLIENT) < late
    note = json.loads(records[late][2])
    assert note["what"] == "sent-late"
    assert note["why"].startswith(f"connecting to 127.0.0.1:{port} took ")


def test_a_name_with_several_addresses(upstream: Upstream, tmp_path: Path) -> None:
    """localhost is ::1 as well on most machines, and nobody is there."""
    with Proxy(str(tmp_path / "t"), f"http://localhost:{upstream.port}") as proxy:
        for _ in range(3):
            client = proxy.connect()
            client.send(request(b"hello"))
            server = upstream.accept()
            assert b"Host: localhost:%d\r\n" % upstream.port in server.read_head()


def test_stopping_ends_all_connections_and_the_journal(upstream: Upstream, proxy: Proxy) -> None:
    client, server = open_stream(upstream, proxy)
    records = proxy.stop()
    assert client.rest() == b""
    assert server.rest() == b""
    assert notes(records) == ["closed"]
    assert records[-1] == (journal.EXIT, 0, b'{"ending":"exited","code":0,"signal":null}')
    assert (journal.SIGNAL, 0, b"SIGTERM") in records


@FORKED
def test_a_second_signal_waits_for_no_recorder(upstream: Upstream, tmp_path: Path) -> None:
    with Proxy(str(tmp_path / "t"), upstream.origin, recorder="hanging", recorder_s=2 * DEADLINE_S) as proxy:
        recorder = int(proxy.stderr.readline().split()[1])
        proxy.process.send_signal(signal.SIGINT)
        while journal.EXIT not in [kind for kind, _, _ in read_journal(proxy.trace)]:
            assert proxy.process.poll() is None
        proxy.process.send_signal(signal.SIGINT)
        assert proxy.process.wait(DEADLINE_S) == 0
        kill(recorder)


def test_a_fault_of_ours_costs_one_connection(upstream: Upstream, proxy: Proxy) -> None:
    client, server = open_stream(upstream, proxy)
    unlucky = proxy.connect()
    unlucky.send(request(line=b"GET /fault HTTP/1.1"))
    assert unlucky.rest() == b""
    assert b"a fault of mcpproxy: ValueError('out of order')" in proxy.stderr.readline()
    server.send(EVENT)
    assert client.read(len(EVENT)) == EVENT


def test_a_chunk_that_arrived_is_recorded_although_the_relay_is_killed(
    upstream: Upstream, proxy: Proxy
) -> None:
    """It may have been killed between forwarding and journaling."""
    client = proxy.connect()
    sent = b""
    for number in range(20):
        sent += request(b"%02d" % number)
        client.send(request(b"%02d" % number))
        server = upstream.peers[0] if upstream.peers else upstream.accept()
        server.read_head()
        server.read(2)
    proxy.process.kill()
    proxy.process.wait()
    journaled = stream(read_journal(proxy.trace), journal.CLIENT)
    segment = Path(journal.folder(proxy.trace), journal.segment_name(1))
    buffered = left_records(journal.folder(proxy.trace), journal.position(1, segment.stat().st_size))
    assert journaled + b"".join(payload for _, payload, _, _ in buffered) == sent


@FORKED
def test_a_recorder_that_dies_stops_nobody(upstream: Upstream, tmp_path: Path) -> None:
    with Proxy(str(tmp_path / "t"), upstream.origin, recorder="killed") as proxy:
        assert proxy.stderr.readline() == (
            b"mcpproxy: the recorder has stopped; the proxy goes on and the journal keeps the traffic\n"
        )
        client = proxy.connect()
        client.send(request(b"hello"))
        server = upstream.accept()
        server.read_head()
        server.send(OK)
        assert client.read(len(OK)) == OK
        assert stream(proxy.stop(), journal.SERVER) == OK


@FORKED
def test_the_recorder_is_woken_when_there_is_something(upstream: Upstream, tmp_path: Path) -> None:
    with Proxy(str(tmp_path / "t"), upstream.origin, recorder="sleepy") as proxy:
        assert proxy.stderr.readline() == b"asleep\n"
        client = proxy.connect()
        client.send(request(b"hello"))
        assert proxy.stderr.readline() == b"woken by 1 byte, flag 0\n"
