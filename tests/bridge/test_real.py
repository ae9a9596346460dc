"""Real clients talk to real servers, once directly and once through a bridge: nothing may differ.

The two legs of a bridge carry the same messages, so what is found on one is found on the other.
"""

from pathlib import Path
from typing import Final

import pytest

import mcpproxy
from tests.bridge.ends import Bridge, bridge, complete
from tests.peers.conformance import REVISIONS, Suite, example_server
from tests.peers.fixtures import Peers
from tests.peers.processes import run, server
from tests.peers.sessions import PAIRS, Sessions
from tests.test_conformance import OF_SERVER
from tests.test_real_http import settled

OF_CLIENT = {"2025-11-25": ["tools_call", "sse-retry"], "2026-07-28": ["http-custom-headers"]}
"""Scenarios for clients without authorization, which is not the bridge's."""

IDS = [" - ".join(pair) for pair in PAIRS]


KILLED: Final = "the recording was cut: mcpproxy was killed before the session ended"
"""On a busy machine: SDKs kill what they have started if it does not end in two seconds."""


def found(folder: Path) -> dict[str, set[str]]:
    """Return the rules of which there is an error or a warning, by leg; every recording is complete,
    or says that a client has killed the bridge."""
    rules: dict[str, set[str]] = {"stdio": set(), "http": set()}
    for trace in complete(folder):
        report = mcpproxy.check(trace)
        assert (report.complete, report.notes) in ((True, ()), (False, (KILLED,)))
        rules[trace.stem.split("-")[-2]] |= {
            finding.rule for finding in report.findings if finding.severity != "info"
        }
    return rules


@pytest.mark.parametrize(("client", "peer"), PAIRS, ids=IDS)
def test_a_host_on_stdio_reaches_a_server_over_http(
    peers: Peers, sessions: Sessions, client: str, peer: str, tmp_path: Path
) -> None:
    drive = [*peers.client(client, peers.plan(peer, "http")), "--"]
    with server(peers.http_server(peer), {"PORT": "0"}) as origin:
        direct = sessions.directly_over_http(client, peer, f"{origin}/mcp")
        through = run([*drive, *bridge(tmp_path, f"{origin}/mcp")])

    assert settled(through) == settled(direct)
    rules = found(tmp_path)
    assert rules["stdio"] == rules["http"]


@pytest.mark.parametrize("client", ["python 1", "python 2", "typescript 1", "typescript 2"])
def test_a_host_on_stdio_reaches_a_server_over_http_sse(peers: Peers, client: str, tmp_path: Path) -> None:
    drive = [*peers.client(client, peers.plan("everything", "http")), "--"]
    with server(peers.http_server("everything", "sse"), {"PORT": "0"}) as origin:
        direct = run([*drive, f"{origin}/sse"])
        through = run([*drive, *bridge(tmp_path, f"{origin}/sse")])

    assert settled(through) == settled(direct)
    rules = found(tmp_path)
    assert rules["stdio"] == rules["http"]


@pytest.mark.parametrize(("client", "peer"), PAIRS, ids=IDS)
def test_a_client_over_http_reaches_a_server_on_stdio(
    peers: Peers, client: str, peer: str, tmp_path: Path
) -> None:
    drive = [*peers.client(client, peers.plan(peer, "http")), "--"]
    direct = run([*drive, *peers.server(peer)])
    with Bridge(tmp_path, command=peers.server(peer)) as before:
        through = run([*drive, before.url])
        before.stop()

    assert settled(through) == settled(direct)
    rules = found(tmp_path)
    assert rules["stdio"] == rules["http"]


@pytest.mark.parametrize("revision", REVISIONS)
def test_what_holds_of_a_server_over_http_holds_of_it_behind_a_bridge(
    peers: Peers, revision: str, tmp_path: Path
) -> None:
    suite = Suite(peers.conformance(), peers.server("python 2")[0])
    scenarios = OF_SERVER[revision]
    command = example_server(suite.python)
    with (
        server(command) as origin,
        Bridge(tmp_path, "--poll-after", "0", command=[*command, "stdio"]) as before,
    ):
        direct = suite.of_server(f"{origin}/mcp", revision, scenarios)
        through = suite.of_server(before.url, revision, scenarios)
        before.stop()

    assert [scenario for scenario in scenarios if not direct.passed(scenario)] == []
    assert direct.lost(through) == []


@pytest.mark.parametrize("revision", REVISIONS)
def test_what_holds_of_a_client_over_http_holds_of_it_on_stdio_before_a_bridge(
    peers: Peers, revision: str, tmp_path: Path
) -> None:
    suite = Suite(peers.conformance(), peers.server("python 2")[0])
    direct = suite.of_client(None, revision, OF_CLIENT[revision])
    through = suite.of_client(None, revision, OF_CLIENT[revision], bridge(tmp_path))

    assert [scenario for scenario in OF_CLIENT[revision] if not direct.passed(scenario)] == []
    assert direct.lost(through) == []
