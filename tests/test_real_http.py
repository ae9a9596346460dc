"""Real clients talk to real servers over HTTP, once directly and once through the proxy: nothing may differ.

And what mcpproxy says about such a session has to be deserved: see ``DESERVED``.
"""

import json
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from tests.peers.fixtures import Peers
from tests.peers.processes import DEADLINE_S, ROOT, Proxy, server

PAIRS: Final = [
    *((client, "everything") for client in Peers.CLIENTS),
    ("python 1", "python 1"),
    ("python 2 auto", "python 1"),
    ("typescript 2 auto", "python 1"),
    ("python 1", "python 2"),
    ("python 2 auto", "python 2"),
    ("typescript 1", "python 2"),
    ("typescript 2 auto", "python 2"),
]


@pytest.mark.parametrize(("client", "peer"), PAIRS, ids=[" - ".join(pair) for pair in PAIRS])
def test_a_real_session_is_the_same(peers: Peers, client: str, peer: str, tmp_path: Path) -> None:
    drive = [*peers.client(client, peers.plan(peer)), "--"]
    with server(peers.http_server(peer), {"PORT": "0"}) as origin:
        directly = run([*drive, f"{origin}/mcp"])
        with Proxy(tmp_path, "--upstream", f"{origin}/mcp") as proxy:
            through = run([*drive, proxy.address])
            proxy.stop()

    assert document(through) == document(directly)


@pytest.mark.parametrize("client", ["python 1", "python 2", "typescript 1", "typescript 2"])
def test_a_session_on_the_first_http_transport_is_the_same(
    peers: Peers, client: str, tmp_path: Path
) -> None:
    drive = [*peers.client(client, peers.plan("everything")), "--"]
    with server(peers.http_server("everything", "sse"), {"PORT": "0"}) as origin:
        directly = run([*drive, f"{origin}/sse"])
        with Proxy(tmp_path, "--upstream", origin, "--endpoint", "/sse") as proxy:
            through = run([*drive, proxy.address])
            proxy.stop()

    assert document(through) == document(directly)


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a client to its end."""
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=DEADLINE_S
    )


def document(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
