"""Real sessions recorded, then replayed to the same client: it gets the same, and nothing is missed.

Each recording is replayed over the transport that it was made on and over the other one.
"""

import json
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.peers.fixtures import Peers
from tests.peers.processes import Process, run
from tests.peers.sessions import Sessions, told
from tests.test_real_http import settled

REPLAY: Final = (sys.executable, "-m", "mcpproxy", "replay", "server")

PAIRS: Final = (
    ("python 1", "everything"),
    ("typescript 2 auto", "everything"),
    ("python 2 auto", "python 2"),
)
"""Sampling and elicitation are asked for in all of them; in the last as the stateless revision does."""

NO_MISSES: Final = r"([\d,]+) requests? answered from the recording, 0 misses"


@pytest.mark.parametrize(("client", "peer"), PAIRS, ids=[" - ".join(pair) for pair in PAIRS])
def test_a_session_on_stdio_is_replayed(peers: Peers, sessions: Sessions, client: str, peer: str) -> None:
    session = sessions.stdio(client, peer)
    on_stdio, over_http = replays(peers.client(client, peers.plan(peer)), session.trace)

    assert json.loads(on_stdio) == json.loads(session.through)
    assert settled(over_http) == settled(session.through)


@pytest.mark.parametrize(("client", "peer"), PAIRS, ids=[" - ".join(pair) for pair in PAIRS])
def test_a_session_over_http_is_replayed(peers: Peers, sessions: Sessions, client: str, peer: str) -> None:
    session = sessions.http(client, peer)
    on_stdio, over_http = replays(peers.client(client, peers.plan(peer, "http")), session.trace)

    assert settled(over_http) == settled(session.through)
    assert settled(on_stdio) == settled(session.through)


@pytest.mark.parametrize("client", ["python 1"], ids="{} - everything".format)
def test_a_session_on_the_first_http_transport_is_replayed(
    peers: Peers, sessions: Sessions, client: str
) -> None:
    session = sessions.sse(client)
    on_stdio, over_http = replays(peers.client(client, peers.plan("everything")), session.trace)

    assert json.loads(over_http) == json.loads(session.through)
    assert settled(on_stdio) == settled(session.through)


@pytest.mark.parametrize("other", ["python 2", "typescript 1"], ids="python 1 - everything, {}".format)
def test_another_client_is_answered_as_well(peers: Peers, sessions: Sessions, other: str) -> None:
    """Its ids, tokens, capabilities and era are others; what it asks is the same."""
    plan = peers.plan("everything")
    trace = sessions.stdio("python 1", "everything").trace

    told = json.loads(run([*peers.client(other, plan), "--", *REPLAY, str(trace)]))
    assert failures(told) == []


def failures(told: Any) -> list[Any]:
    """The steps that a replay could not answer."""
    return [step for step in told["steps"] if "not in the recording" in json.dumps(step)]


def replays(drive: list[str], trace: Path) -> list[str]:
    """What the client gets from a replay on stdio, and from one over HTTP in which nothing is missed."""
    process = Process([*REPLAY, str(trace), "--http", "127.0.0.1:0"])
    try:
        got = told(drive, [*REPLAY, str(trace)], [process.expect(r"replaying at (\S+)")])
        assert process.stop() == 0
        assert int(process.expect(NO_MISSES).replace(",", "")) > 20
    finally:
        process.kill()
    return got
