"""TLS on either side of the HTTP relay.

The keys in certs/ were made for these tests and are trusted by nobody else:
``openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 36500 -subj /CN=localhost
-addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout localhost.key -out localhost.pem``
"""

import os
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpproxy.record.relay import journal
from tests.relay.hosts import HERE
from tests.relay.http_peers import Peer, Proxy, Upstream, request, stream

pytestmark = pytest.mark.usefixtures("loop")

CERT, KEY = str(HERE / "certs" / "localhost.pem"), str(HERE / "certs" / "localhost.key")
TO_CLIENTS = ("--cert", CERT, "--key", KEY)


SERVER, CLIENT = str(HERE / "certs" / "server.example"), str(HERE / "certs" / "client")
"""Without .pem and .key: a server of that name, and a client."""


def server_context(name: str = "", *, asks: bool = False) -> ssl.SSLContext:
    """TLS of a server; with ``asks`` it demands the certificate of ``CLIENT``."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*((f"{name}.pem", f"{name}.key") if name else (CERT, KEY)))
    if asks:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(f"{CLIENT}.pem")
    return context


@pytest.fixture
def plain() -> Iterator[Upstream]:
    server = Upstream()
    yield server
    server.close()


@pytest.fixture
def secure() -> Iterator[Upstream]:
    server = Upstream(server_context())
    yield server
    server.close()


@pytest.fixture
def trusted(monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """Make the relay trust the test's certificate."""
    monkeypatch.setenv("SSL_CERT_FILE", CERT)
    return ssl.create_default_context(cafile=CERT)


def converse(client: Peer, upstream: Upstream, size: int) -> None:
    """A large request and a large answer at once, then the end."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + os.urandom(16) * (size // 16)
    sent = request(b"q" * size)
    sending = client.send_aside(sent)
    server = upstream.accept()
    head = server.read_head()
    assert b"Host: 127.0.0.1:%d\r\n" % upstream.port in head
    assert server.read(size) == b"q" * size
    sending.join()
    sending = server.send_aside(answer)
    assert client.read(len(answer)) == answer
    sending.join()
    server.close()
    assert client.rest() == b""


def test_tls_to_upstream(secure: Upstream, trusted: ssl.SSLContext, tmp_path: Path) -> None:
    with Proxy(str(tmp_path / "t"), secure.origin) as proxy:
        converse(proxy.connect(), secure, 4 << 20)
        records = proxy.stop()
    assert stream(records, journal.CLIENT) == request(b"q" * (4 << 20))
    assert stream(records, journal.SERVER).startswith(b"HTTP/1.1 200 OK\r\n")


def test_tls_to_clients(plain: Upstream, trusted: ssl.SSLContext, tmp_path: Path) -> None:
    with Proxy(str(tmp_path / "t"), plain.origin, *TO_CLIENTS) as proxy:
        assert "https://127.0.0.1" in proxy.greeting
        client = proxy.connect(trusted)
        assert isinstance(client.sock, ssl.SSLSocket)
        converse(client, plain, 4 << 20)


def test_tls_on_both_sides(secure: Upstream, trusted: ssl.SSLContext, tmp_path: Path) -> None:
    with Proxy(str(tmp_path / "t"), secure.origin, *TO_CLIENTS) as proxy:
        for _ in range(3):
            converse(proxy.connect(trusted), secure, 1 << 20)


def test_a_client_that_leaves_is_seen_behind_tls(
    secure: Upstream, trusted: ssl.SSLContext, tmp_path: Path
) -> None:
    with Proxy(str(tmp_path / "t"), secure.origin, *TO_CLIENTS) as proxy:
        client = proxy.connect(trusted)
        client.send(request(b"hello"))
        server = secure.accept()
        server.read_head()
        server.send(b"HTTP/1.1 200 OK\r\n\r\ndata: 1\n\n")
        assert client.read(28) == b"HTTP/1.1 200 OK\r\n\r\ndata: 1\n\n"
        client.close()
        assert server.rest() == b"hello"


@pytest.mark.parametrize("is_answered", [True, False], ids=["with its answer", "without an answer"])
def test_a_server_that_answers_our_end_with_an_alert_refused_nothing(
    secure: Upstream, trusted: ssl.SSLContext, tmp_path: Path, is_answered: bool
) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    with Proxy(str(tmp_path / "t"), secure.origin) as proxy:
        client = proxy.connect()
        client.send(request(b"hello"))
        server = secure.accept()
        server.read_head()
        assert server.read(5) == b"hello"
        if is_answered:
            server.send(answer)
            assert client.read(len(answer)) == answer
        client.close()
        assert server.rest() == b""  # OpenSSL sends the alert
        server.close()
        records = proxy.stop()
        assert b"no TLS" not in proxy.stderr.read()
    assert b"upstream-failed" not in stream(records, journal.NOTE)


def accept_aside(upstream: Upstream) -> threading.Thread:
    """Play a server whose handshake fails."""

    def work() -> None:
        try:
            upstream.accept().close()
        except OSError:
            pass

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_a_certificate_that_is_not_trusted(secure: Upstream, tmp_path: Path) -> None:
    with Proxy(str(tmp_path / "t"), secure.origin) as proxy:
        accepting = accept_aside(secure)
        client = proxy.connect()
        client.send(request(b"hello"))
        status, message = client.error()
        accepting.join()
    assert status == 502
    assert "not trusted" in message
    assert "name its CA with --ca FILE or SSL_CERT_FILE; --insecure accepts any" in message


def test_a_name_that_the_certificate_has_not(tmp_path: Path) -> None:
    """No other CA would help."""
    other = Upstream(server_context(SERVER))
    with Proxy(str(tmp_path / "u"), other.origin, "--ca", f"{SERVER}.pem") as proxy:
        accepting = accept_aside(other)
        client = proxy.connect()
        client.send(request(b"hello"))
        _, message = client.error()
        accepting.join()
    other.close()
    assert "not trusted" in message
    assert "--ca" not in message
    assert "--insecure" in message


VERSIONS = pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])


@VERSIONS
def test_a_server_that_demands_a_client_certificate(
    version: ssl.TLSVersion, trusted: ssl.SSLContext, tmp_path: Path
) -> None:
    """In TLS 1.3 it says so when the handshake of the client is complete, and the request is sent."""
    context = server_context()
    context.minimum_version = context.maximum_version = version
    context.verify_mode = ssl.CERT_REQUIRED
    strict = Upstream(context)
    with Proxy(str(tmp_path / "t"), strict.origin) as proxy:
        for _ in range(2):
            accepting = accept_aside(strict)
            client = proxy.connect()
            client.send(request(b"hello"))
            status, message = client.error()
            accepting.join()
            assert status == 502
            assert "demands a client certificate" in message
            assert "give one with --client-cert and --client-key" in message
        records = proxy.stop()
        said = proxy.stderr.read().decode().splitlines()
    assert stream(records, journal.OWN).startswith(b"HTTP/1.1 502 ")
    assert stream(records, journal.SERVER) == b""
    assert b'"upstream-failed"' in stream(records, journal.NOTE)
    assert [line for line in said if "demands" in line] == [line for line in said if "no TLS with" in line]
    assert len([line for line in said if "demands a client certificate" in line]) == 1
    strict.close()


@VERSIONS
def test_a_client_certificate(version: ssl.TLSVersion, tmp_path: Path) -> None:
    context = server_context(asks=True)
    context.minimum_version = context.maximum_version = version
    strict = Upstream(context)
    own = ("--client-cert", f"{CLIENT}.pem", "--client-key", f"{CLIENT}.key", "--ca", CERT)
    with Proxy(str(tmp_path / "t"), strict.origin, *own) as proxy:
        converse(proxy.connect(), strict, 1 << 10)
    strict.close()


@VERSIONS
def test_a_client_certificate_that_the_server_does_not_take(version: ssl.TLSVersion, tmp_path: Path) -> None:
    context = server_context(asks=True)
    context.minimum_version = context.maximum_version = version
    strict = Upstream(context)
    own = ("--client-cert", f"{SERVER}.pem", "--client-key", f"{SERVER}.key", "--ca", CERT)
    with Proxy(str(tmp_path / "t"), strict.origin, *own) as proxy:
        accepting = accept_aside(strict)
        client = proxy.connect()
        client.send(request(b"hello"))
        status, message = client.error()
        accepting.join()
    strict.close()
    assert status == 502
    assert message.endswith("perhaps it does not accept the certificate of --client-cert")


@VERSIONS
@pytest.mark.parametrize("is_answered", [False, True])
def test_an_end_that_any_client_would_see_is_passed_on(
    version: ssl.TLSVersion, trusted: ssl.SSLContext, tmp_path: Path, *, is_answered: bool
) -> None:
    """TLS has not failed: the server only closes the connection."""
    context = server_context()
    context.minimum_version = context.maximum_version = version
    server = Upstream(context)
    with Proxy(str(tmp_path / "t"), server.origin) as proxy:
        client = proxy.connect()
        client.send(request(b"hello"))
        peer = server.accept()
        peer.read_head()
        assert peer.read(5) == b"hello"
        if is_answered:
            peer.send(b"HTTP/1.1 200 OK\r\n\r\n12")
            assert client.read(21) == b"HTTP/1.1 200 OK\r\n\r\n12"
        peer.close()
        assert client.rest() == b""
        assert stream(proxy.stop(), journal.OWN) == b""
    server.close()


def test_insecure_looks_at_no_certificate_and_says_so(secure: Upstream, tmp_path: Path) -> None:
    with Proxy(str(tmp_path / "t"), secure.origin, "--insecure") as proxy:
        assert proxy.stderr.readline().startswith(b"mcpproxy: WARNING: --insecure: ")
        converse(proxy.connect(), secure, 1 << 10)


def test_an_upstream_that_speaks_no_tls(plain: Upstream, tmp_path: Path) -> None:
    with Proxy(str(tmp_path / "t"), f"https://127.0.0.1:{plain.port}") as proxy:
        client = proxy.connect()
        client.send(request(b"hello"))
        plain.accept().send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        status, message = client.error()
    assert status == 502
    assert "no TLS with" in message


def test_a_client_that_speaks_no_tls_is_dropped(
    plain: Upstream, trusted: ssl.SSLContext, tmp_path: Path
) -> None:
    with Proxy(str(tmp_path / "t"), plain.origin, *TO_CLIENTS) as proxy:
        client = proxy.connect()
        client.send(request(b"hello"))
        try:
            assert b"HTTP" not in client.rest()
        except ConnectionResetError:
            pass
        converse(proxy.connect(trusted), plain, 1 << 10)


def test_a_client_that_stops_in_its_handshake_stops_nobody(
    plain: Upstream, trusted: ssl.SSLContext, tmp_path: Path
) -> None:
    with Proxy(str(tmp_path / "t"), plain.origin, *TO_CLIENTS) as proxy:
        silent = socket.create_connection(("127.0.0.1", proxy.port))
        silent.send(b"\x16\x03\x01")
        converse(proxy.connect(trusted), plain, 1 << 10)
        silent.close()
