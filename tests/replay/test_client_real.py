"""Real sessions recorded, then their clients played to the same servers again: nothing is different."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.peers.fixtures import Peers
from tests.peers.processes import Proxy, run, server

REPLAY: Final = (sys.executable, "-m", "mcpproxy", "replay", "client")
DEADLINE_S: Final = 120

PAIRS: Final = (
    ("python 1", "everything"),
    ("python 2 auto", "python 2"),
)
"""Sampling and elicitation are asked for in all of them; in the last as the stateless revision does."""


def replayed(trace: Path, *arguments: str) -> dict[str, Any]:
    """The comparison, as programs see it."""
    command = [*REPLAY, str(trace), "--format", "json", "--alike", "timestamps", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def differing(report: dict[str, Any]) -> list[dict[str, Any]]:
    return [item for item in report["items"] if item["verdict"] != "same"]


@pytest.mark.parametrize(("client", "peer"), PAIRS, ids=[" - ".join(pair) for pair in PAIRS])
def test_a_session_on_stdio_is_played_again(peers: Peers, client: str, peer: str, tmp_path: Path) -> None:
    drive = [*peers.client(client, peers.plan(peer)), "--"]
    wrapper = [sys.executable, "-m", "mcpproxy", "--trace-dir", str(tmp_path), "--quiet", "--"]
    run([*drive, *wrapper, *peers.server(peer)])
    trace = sorted(tmp_path.glob("*.jsonl"))[-1]  # a client that tries an era first starts the server twice
    report = replayed(trace, "--", *peers.server(peer))
    assert differing(report) == []
    assert report["notes"] == []


@pytest.mark.parametrize(("client", "peer"), PAIRS, ids=[" - ".join(pair) for pair in PAIRS])
def test_a_session_over_http_is_played_again(peers: Peers, client: str, peer: str, tmp_path: Path) -> None:
    drive = [*peers.client(client, peers.plan(peer, "http")), "--"]
    with server(peers.http_server(peer), {"PORT": "0"}) as origin:
        with Proxy(tmp_path, "--upstream", f"{origin}/mcp") as proxy:
            run([*drive, proxy.address])
            proxy.stop()
        report = replayed(proxy.trace, "--url", f"{origin}/mcp")
    assert differing(report) == []


def test_a_session_on_stdio_is_played_over_http(peers: Peers, tmp_path: Path) -> None:
    """In the stateless revision, where transports differ in nothing else."""
    drive = [*peers.client("python 2 auto", peers.plan("python 2")), "--"]
    wrapper = [sys.executable, "-m", "mcpproxy", "--trace-dir", str(tmp_path), "--quiet", "--"]
    run([*drive, *wrapper, *peers.server("python 2")])
    trace = sorted(tmp_path.glob("*.jsonl"))[-1]
    with server(peers.http_server("python 2"), {"PORT": "0"}) as origin:
        report = replayed(trace, "--url", f"{origin}/mcp")
    assert differing(report) == []


def test_a_session_on_the_first_http_transport_is_played_again(peers: Peers, tmp_path: Path) -> None:
    drive = [*peers.client("python 1", peers.plan("everything")), "--"]
    with server(peers.http_server("everything", "sse"), {"PORT": "0"}) as origin:
        with Proxy(tmp_path, "--upstream", origin, "--endpoint", "/sse") as proxy:
            run([*drive, proxy.address])
            proxy.stop()
        report = replayed(proxy.trace, "--url", f"{origin}/sse")
    assert differing(report) == []
