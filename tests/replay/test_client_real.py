"""Real sessions recorded, then their clients played to the same servers again: nothing is different."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.peers.fixtures import Peers
from tests.peers.processes import server
from tests.peers.sessions import Sessions

REPLAY: Final = (sys.executable, "-m", "mcpproxy", "replay", "client")
DEADLINE_S: Final = 120

PAIRS: Final = (
    ("python 1", "everything"),
    ("python 2 auto", "python 2"),
)
"""Sampling and elicitation are asked for in all of them; in the last as the stateless revision does."""

LUCK: Final = tuple(
    f"the server's {method}"
    for method in ("roots/list", "notifications/tools/list_changed", "notifications/message")
)
"""What the reference server says at the handshake, a third of a second after it, and of what it is answered
then. All of that goes on the stream of the client's GET and is lost if that is not open yet, be it in the
recording or in the replay, as under load. What came both times is compared like anything else."""


def replayed(trace: Path, *arguments: str) -> dict[str, Any]:
    """The comparison, as programs see it."""
    command = [*REPLAY, str(trace), "--format", "json", "--alike", "timestamps", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def is_lost(item: dict[str, Any]) -> bool:
    """Whether it came one time only, as may happen to it."""
    return item["what"] in LUCK and item["verdict"] in ("missing", "new")


def differing(report: dict[str, Any]) -> list[dict[str, Any]]:
    return [item for item in report["items"] if item["verdict"] != "same"]


@pytest.mark.parametrize(("client", "peer"), PAIRS, ids=[" - ".join(pair) for pair in PAIRS])
def test_a_session_on_stdio_is_played_again(peers: Peers, sessions: Sessions, client: str, peer: str) -> None:
    trace = sessions.stdio(client, peer).trace
    report = replayed(trace, "--", *peers.server(peer))
    assert differing(report) == []
    assert report["notes"] == []


@pytest.mark.parametrize(("client", "peer"), PAIRS, ids=[" - ".join(pair) for pair in PAIRS])
def test_a_session_over_http_is_played_again(
    peers: Peers, sessions: Sessions, client: str, peer: str
) -> None:
    trace = sessions.http(client, peer).trace
    with server(peers.http_server(peer), {"PORT": "0"}) as origin:
        report = replayed(trace, f"{origin}/mcp")
    assert [item for item in differing(report) if not is_lost(item)] == []


@pytest.mark.parametrize(("client", "peer"), PAIRS[1:], ids=[" - ".join(pair) for pair in PAIRS[1:]])
def test_a_session_on_stdio_is_played_over_http(
    peers: Peers, sessions: Sessions, client: str, peer: str
) -> None:
    """In the stateless revision, where transports differ in nothing else."""
    trace = sessions.stdio(client, peer).trace
    with server(peers.http_server(peer), {"PORT": "0"}) as origin:
        report = replayed(trace, f"{origin}/mcp")
    assert differing(report) == []


@pytest.mark.parametrize("client", ["python 1"], ids="{} - everything".format)
def test_a_session_on_the_first_http_transport_is_played_again(
    peers: Peers, sessions: Sessions, client: str
) -> None:
    trace = sessions.sse(client).trace
    with server(peers.http_server("everything", "sse"), {"PORT": "0"}) as origin:
        report = replayed(trace, f"{origin}/sse")
    assert differing(report) == []
