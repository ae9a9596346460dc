"""Real clients and servers with the HTTP relay between them: the same results as without it."""

import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mcpproxy.record.relay import journal
from tests.peers.fixtures import Peers
from tests.relay.hosts import DEADLINE_S, HERE
from tests.relay.http_peers import Proxy, read_journal


@contextmanager
def sdk_server(python: str) -> Generator[int]:
    """The SDK's example server; its port."""
    process = subprocess.Popen([python, str(HERE / "sdk_http_server.py")], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


def said_by(python: str, url: str) -> str:
    done = subprocess.run(
        [python, str(HERE / "sdk_http_client.py"), url], capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("line", ["python 1", "python 2"])
def test_the_sdk_gets_the_same_results(line: str, peers: Peers, tmp_path: Path) -> None:
    python = peers.server(line)[0]
    with (
        sdk_server(python) as port,
        Proxy(str(tmp_path / "t"), f"http://127.0.0.1:{port}") as proxy,
    ):
        direct = said_by(python, f"http://127.0.0.1:{port}/mcp")
        through = said_by(python, f"http://127.0.0.1:{proxy.port}/mcp")
        assert "grüß Gott" in direct
        assert through == direct
        proxy.stop()
    journaled = b"".join(payload for kind, _, payload in read_journal(proxy.trace) if kind == journal.CLIENT)
    assert journaled.count(b"POST /mcp HTTP/1.1") >= 5


HTTPX = """
import sys, httpx
direct, proxy, mode = sys.argv[1:]
options = {"proxy": proxy} if mode == "forward" else {}
url = direct if mode == "forward" else proxy
with httpx.Client(trust_env=False, **options) as client:
    for number in range(3):
        body = {"jsonrpc": "2.0", "id": number, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}}
        got = client.post(url + "/mcp", json=body, headers={"Accept": "application/json, text/event-stream"})
        assert got.status_code == 200, (got.status_code, got.text)
        assert '"serverInfo"' in got.text
    assert client.get(url + "/nowhere").status_code == 404
print("done")
"""


@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_httpx(mode: str, peers: Peers, tmp_path: Path) -> None:
    python = peers.server("python 1")[0]
    with sdk_server(python) as port:
        direct = f"http://127.0.0.1:{port}"
        options = ("--forward",) if mode == "forward" else (direct,)
        with Proxy(str(tmp_path / "t"), *options) as proxy:
            command = [python, "-c", HTTPX, direct, f"http://127.0.0.1:{proxy.port}", mode]
            done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
            assert (done.stdout, done.stderr) == ("done\n", "")
            numbers = {number for _, number, _ in proxy.stop()}
    assert numbers == {0, 1}
