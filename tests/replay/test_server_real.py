"""Real sessions recorded, then replayed to the same client: it gets the same, and nothing is missed.

Each recording is replayed over the transport that it was made on and over the other one.
"""

import json
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.peers.fixtures import Peers
from tests.peers.processes import Process, Proxy, run, server
from tests.test_real_http import settled

REPLAY: Final = (sys.executable, "-m", "mcpproxy", "replay", "server")

PAIRS: Final = (
    ("python 1", "everything"),
    ("typescript 2 auto", "everything"),
    ("python 2 auto", "python 2"),
)
"""Sampling and elicitation are asked for in all of them; in the last as the stateless revision does."""

NO_MISSES: Final = r"(\d+) requests answered from the recording, 0 misses"


@pytest.mark.parametrize(("client", "peer"), PAIRS, ids=[" - ".join(pair) for pair in PAIRS])
def test_a_session_on_stdio_is_replayed(peers: Peers, client: str, peer: str, tmp_path: Path) -> None:
    drive = [*peers.client(client, peers.plan(peer)), "--"]
    wrapper = [sys.executable, "-m", "mcpproxy", "--trace-dir", str(tmp_path), "--quiet", "--"]
    recorded = json.loads(run([*drive, *wrapper, *peers.server(peer)]))
    trace = sorted(tmp_path.glob("*.jsonl"))[-1]

    assert json.loads(run([*drive, *REPLAY, str(trace)])) == recorded
    assert settled(over_http(drive, trace)) == settled(json.dumps(recorded))


@pytest.mark.parametrize(("client", "peer"), PAIRS, ids=[" - ".join(pair) for pair in PAIRS])
def test_a_session_over_http_is_replayed(peers: Peers, client: str, peer: str, tmp_path: Path) -> None:
    drive = [*peers.client(client, peers.plan(peer, "http")), "--"]
    with (
        server(peers.http_server(peer), {"PORT": "0"}) as origin,
        Proxy(tmp_path, "--upstream", f"{origin}/mcp") as proxy,
    ):
        recorded = run([*drive, proxy.address])
        proxy.stop()

    assert settled(over_http(drive, proxy.trace)) == settled(recorded)
    assert settled(run([*drive, *REPLAY, str(proxy.trace)])) == settled(recorded)


def test_a_session_on_the_first_http_transport_is_replayed(peers: Peers, tmp_path: Path) -> None:
    drive = [*peers.client("python 1", peers.plan("everything")), "--"]
    with (
        server(peers.http_server("everything", "sse"), {"PORT": "0"}) as origin,
        Proxy(tmp_path, "--upstream", origin, "--endpoint", "/sse") as proxy,
    ):
        recorded = run([*drive, proxy.address])
        proxy.stop()

    assert json.loads(over_http(drive, proxy.trace)) == json.loads(recorded)


@pytest.mark.parametrize("other", ["python 2", "typescript 1"])
def test_another_client_is_answered_as_well(peers: Peers, other: str, tmp_path: Path) -> None:
    """Its ids, tokens, capabilities and era are others; what it asks is the same."""
    plan = peers.plan("everything")
    wrapper = [sys.executable, "-m", "mcpproxy", "--trace-dir", str(tmp_path), "--quiet", "--"]
    run([*peers.client("python 1", plan), "--", *wrapper, *peers.server("everything")])
    [trace] = tmp_path.glob("*.jsonl")

    told = json.loads(run([*peers.client(other, plan), "--", *REPLAY, str(trace)]))
    assert failures(told) == []


def failures(told: Any) -> list[Any]:
    """The steps that a replay could not answer."""
    return [step for step in told["steps"] if "not in the recording" in json.dumps(step)]


def over_http(drive: list[str], trace: Path) -> str:
    """What the client gets from a replay over HTTP in which nothing is missed."""
    process = Process([*REPLAY, str(trace), "--http", "127.0.0.1:0"])
    try:
        got = run([*drive, process.expect(r"replaying at (\S+)")])
        assert process.stop() == 0
        assert int(process.expect(NO_MISSES)) > 20
    finally:
        process.kill()
    return got
