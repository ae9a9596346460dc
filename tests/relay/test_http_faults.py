"""Faults of ours in the HTTP relay: each ends the connection in which it occurs, and no other."""

import json
import socket
import ssl
from pathlib import Path

import pytest

from mcpproxy.record.relay import journal
from tests.relay.hosts import DEADLINE_S
from tests.relay.http_peers import OK, Peer, Proxy, Record, Upstream, request
from tests.relay.test_http_tls import CERT, KEY

pytestmark = pytest.mark.usefixtures("loop")

SAID = b"a fault of mcpproxy: ValueError('out of order') (faults.py, line "


def named(upstream: Upstream) -> str:
    """The server under a name, so that it is looked up."""
    return f"http://localhost:{upstream.port}"


def is_served(client: Peer, upstream: Upstream) -> bool:
    client.send(request(b"hello"))
    server = upstream.accept()
    server.read_head()
    assert server.read(5) == b"hello"
    server.send(OK)
    return client.read(len(OK)) == OK


def notes(records: list[Record]) -> list[tuple[int, str, str]]:
    """Of each note: connection, what, why."""
    found = [(number, json.loads(payload)) for kind, number, payload in records if kind == journal.NOTE]
    return [(number, note["what"], note["why"]) for number, note in found]


def is_told_once(proxy: Proxy) -> bool:
    """Whether stderr reports the fault in one line."""
    return proxy.stderr.read().count(SAID) == 1


@pytest.mark.parametrize("fault", ["look-up", "connecting", "connected", "abandoning"])
def test_a_fault_while_connecting_upstream(fault: str, upstream: Upstream, tmp_path: Path) -> None:
    with Proxy(str(tmp_path / "t"), named(upstream), fault=fault) as proxy:
        unlucky = proxy.connect()
        unlucky.send(request(b"hello"))
        assert unlucky.rest() == b""
        if not upstream.is_left_alone():
            assert fault != "look-up"
        assert is_served(proxy.connect(), upstream)
        records = proxy.stop()
        assert is_told_once(proxy)
    (note, *_) = notes(records)
    assert note[:2] == (1, "closed")
    assert SAID.decode() in note[2]


def test_the_same_fault_again_is_told_once_and_recorded_each_time(upstream: Upstream, tmp_path: Path) -> None:
    with Proxy(str(tmp_path / "t"), named(upstream), fault="every look-up") as proxy:
        for _ in range(3):
            client = proxy.connect()
            client.send(request(b"hello"))
            assert client.rest() == b""
        records = proxy.stop()
        assert is_told_once(proxy)
    assert [number for number, what, _ in notes(records) if what == "closed"] == [1, 2, 3]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [("look-up thread", "a fault of mcpproxy"), ("no look-up thread", "no thread can be started")],
)
def test_a_look_up_that_goes_wrong_is_answered(
    fault: str, reason: str, upstream: Upstream, tmp_path: Path
) -> None:
    with Proxy(str(tmp_path / "t"), named(upstream), fault=fault) as proxy:
        client = proxy.connect()
        client.send(request(b"hello"))
        status, message = client.error()
        assert status == 502
        assert reason in message
        assert is_served(proxy.connect(), upstream)
        assert proxy.stop()


def test_a_fault_in_the_timer_of_a_connect(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as silent:
        port = silent.getsockname()[1]
        filling = [socket.socket() for _ in range(2)]
        for one in filling:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        with Proxy(
            str(tmp_path / "t"), f"http://127.0.0.1:{port}", connect_s=0.2, fault="connect timer"
        ) as proxy:
            unlucky, other = proxy.connect(), proxy.connect()
            unlucky.send(request(b"hello"))
            assert unlucky.rest() == b""
            other.send(request(b"hello"))
            assert other.error()[0] == 504
            proxy.stop()
            assert is_told_once(proxy)
        for one in filling:
            one.close()


def test_a_fault_in_the_timer_of_an_end(upstream: Upstream, tmp_path: Path) -> None:
    with Proxy(str(tmp_path / "t"), upstream.origin, fault="lingering timer") as proxy:
        unlucky = proxy.connect()
        unlucky.send(request(b"hello", b"Origin: https://evil.example"))
        assert unlucky.error()[0] == 403
        assert SAID in proxy.stderr.readline()
        assert is_served(proxy.connect(), upstream)
        records = proxy.stop()
    assert [what for number, what, _ in notes(records) if number == 1] == ["refused", "closed"]


def test_a_fault_in_the_handshake_of_a_client(upstream: Upstream, tmp_path: Path) -> None:
    options = (upstream.origin, "--cert", CERT, "--key", KEY)
    context = ssl.create_default_context(cafile=CERT)
    with Proxy(str(tmp_path / "t"), *options, fault="handshake") as proxy:
        with pytest.raises(OSError, match=r"."):
            proxy.connect(context)
        assert is_served(proxy.connect(context), upstream)
        proxy.stop()
        assert is_told_once(proxy)


def test_a_client_that_leaves_within_its_handshake_is_no_fault(upstream: Upstream, tmp_path: Path) -> None:
    options = (upstream.origin, "--cert", CERT, "--key", KEY)
    with Proxy(str(tmp_path / "t"), *options) as proxy:
        for _ in range(20):
            client = socket.create_connection(("127.0.0.1", proxy.port), DEADLINE_S)
            client.sendall(b"\x16\x03\x01")
            Peer(client).reset()
        assert is_served(proxy.connect(ssl.create_default_context(cafile=CERT)), upstream)
        proxy.stop()
        assert b"fault" not in proxy.stderr.read()


def test_a_connection_that_cannot_be_watched(upstream: Upstream, tmp_path: Path) -> None:
    with Proxy(str(tmp_path / "t"), upstream.origin, fault="no more descriptors to watch") as proxy:
        assert proxy.connect().rest() == b""
        assert is_served(proxy.connect(), upstream)
        records = proxy.stop()
        assert b"no space" in proxy.stderr.read()
    assert [what for number, what, _ in notes(records) if number == 1] == ["closed"]


def test_a_fault_that_belongs_to_no_connection_yet(upstream: Upstream, tmp_path: Path) -> None:
    with Proxy(str(tmp_path / "t"), upstream.origin, fault="accepting") as proxy:
        assert proxy.connect().rest() == b""
        assert is_served(proxy.connect(), upstream)
        records = proxy.stop()
        assert is_told_once(proxy)
    assert notes(records)[0][:2] == (0, "fault")


def test_a_fault_while_journaling_costs_no_connection_and_is_a_gap(
    upstream: Upstream, tmp_path: Path
) -> None:
    with Proxy(str(tmp_path / "t"), upstream.origin, fault="journaling") as proxy:
        client = proxy.connect()
        client.send(request(b"hello"))
        server = upstream.accept()
        for another in (request(b"hello"), b""):
            server.read_head()
            assert server.read(5) == b"hello"
            server.send(OK)
            assert client.read(len(OK)) == OK
            client.send(another)
        records = proxy.stop()
        assert is_told_once(proxy)
    assert notes(records)[0][:2] == (0, "fault")
    [gap] = [json.loads(payload) for kind, _, payload in records if kind == journal.GAP]
    assert gap["reason"] == "a fault of mcpproxy"
    forwarded = 2 * len(request(b"hello"))
    recorded = sum(len(payload) for kind, _, payload in records if kind == journal.CLIENT)
    assert gap["client"] + recorded == forwarded
    assert [kind for kind, *_ in records].count(journal.CONNECT) == 1


def test_a_fault_while_stopping_stops_the_others_all_the_same(upstream: Upstream, tmp_path: Path) -> None:
    with Proxy(str(tmp_path / "t"), upstream.origin, fault="stopping") as proxy:
        clients = [proxy.connect() for _ in range(2)]
        for client in clients:
            assert is_served(client, upstream)
        records = proxy.stop()
        for client in clients:
            assert client.rest() == b""
    assert records[-1][0] == journal.EXIT
    assert sorted(number for number, what, _ in notes(records) if what == "closed") == [1, 2]
