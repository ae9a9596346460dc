"""Servers over HTTP that are strict or odd, and recordings that would fill the disk."""

import socket
import ssl
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.attacks.proxied import Origin, Proxied
from tests.attacks.stage import DEADLINE_S, Stage, Table, hold

_CERTS = Path(__file__).parents[1] / "relay" / "certs"

TABLE = Table()


@contextmanager
def _strict(version: ssl.TLSVersion) -> Generator[int]:
    """The port of a server that speaks TLS with clients that have a certificate only."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(_CERTS / "localhost.pem", _CERTS / "localhost.key")
    context.minimum_version = context.maximum_version = version
    context.verify_mode = ssl.CERT_REQUIRED
    listener = socket.create_server(("127.0.0.1", 0))

    def refuse() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # it is shut down
                return
            connection.settimeout(DEADLINE_S)
            with connection, suppress(OSError), context.wrap_socket(connection, server_side=True) as secured:
                secured.recv(1 << 16)

    thread = threading.Thread(target=refuse, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(DEADLINE_S)
        listener.close()


@TABLE
def client_certificate(stage: Stage) -> str:
    """A server that demands a client certificate gets the client an answer, and stderr the reason."""
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        with _strict(version) as port:
            url = f"https://127.0.0.1:{port}/mcp"
            with Proxied(stage, url, "--insecure", trace=f"{version.name}.jsonl") as proxied:
                answer = proxied.ask("POST", "/mcp", b"{}")
                proxied.stop()
            hold(b" 502 " in answer, f"{version.name}: the client got {answer[:40]!r}")
            hold(b"client certificate" in answer, f"{version.name}: {answer[-80:]!r}")
            hold(proxied.said.count("client certificate") == 1, f"{version.name}: {proxied.said[-80:]!r}")
            done = stage.run("validate", "--insecure", url)
            hold("client certificate" in done.err, f"{version.name}: validate says {done.err.strip()[-60:]}")
    return "502 and the reason, TLS 1.2 and 1.3"


@TABLE
def hop_by_hop(stage: Stage) -> str:
    """A field that Connection names does not pass from the server to the client; framing does."""
    with Origin() as origin, Proxied(stage, origin) as proxied:
        origin.fields = [b"Connection: X-Bar, Content-Length", b"X-Bar: 1", b"Proxy-Authenticate: Basic"]
        answer = proxied.ask("POST", "/mcp", b"{}").lower()
    hold(b"x-bar" not in answer, "X-Bar passed")
    hold(b"proxy-authenticate" not in answer, "Proxy-Authenticate passed")
    hold(b"content-length: 2" in answer, "the length is gone")
    return "X-Bar and Proxy-Authenticate stay behind"


_ECHO = "import sys\nfor line in sys.stdin.buffer: sys.stdout.buffer.write(line); sys.stdout.buffer.flush()"
_LINES = (b'{"jsonrpc":"2.0","method":"n","params":{"x":"' + b"x" * 1000 + b'"}}\n') * 5000


def _size_with(stage: Stage, *options: str) -> int:
    command = ("--trace-dir", str(stage.folder / "rec"), *options, "--", sys.executable, "-c", _ECHO)
    done = stage.run(*command, stdin=_LINES, doing="run")
    hold(done.out.encode() == _LINES, f"the traffic did not pass: {done.err.strip()[-80:]}")
    for _ in stage.looks("the end of the recording"):
        if not [*(stage.folder / "rec").glob("*.journal")]:
            break
    return sum(path.stat().st_size for path in (stage.folder / "rec").glob("*.jsonl"))


@TABLE
def recording_without_end(stage: Stage) -> str:
    """A session records no more than it may, and nothing on a disk that is nearly full."""
    size = _size_with(stage, "--reserve", "1000000T")
    hold(size < 1 << 20, f"{size} bytes recorded on a full disk")
    size = _size_with(stage, "--max-size", "1M")
    hold(size < 4 << 20, f"{size} bytes recorded instead of 1M")
    return "5 MB passed, the recordings say what they lack"
