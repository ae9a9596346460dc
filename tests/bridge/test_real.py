"""Real clients talk to real servers, directly and through a bridge: nothing may differ.

The two legs of a bridge carry the same messages, so what is found on one is found on the other.
"""

from pathlib import Path
from typing import Final

import pytest

import mcpproxy
from tests.bridge.ends import Bridge, bridge, complete
from tests.peers.conformance import REVISIONS, Result, Suite, example_server, lost
from tests.peers.fixtures import Peers
from tests.peers.processes import server
from tests.peers.sessions import PAIRS, Session, Sessions
from tests.test_conformance import OF_SERVER
from tests.test_real_http import settled

OF_CLIENT = {"2025-11-25": {"tools_call": 2, "sse-retry": 3}, "2026-07-28": {"http-custom-headers": 5}}
"""Scenarios for clients without authorization, which is not the bridge's, and how many checks of each pass
directly."""

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


def assert_nothing_differs(session: Session) -> None:
    assert settled(session.through) == settled(session.directly)
    rules = found(session.folder)
    assert rules["stdio"] == rules["http"]


@pytest.mark.parametrize(("client", "peer"), PAIRS, ids=IDS)
def test_a_host_on_stdio_reaches_a_server_over_http(sessions: Sessions, client: str, peer: str) -> None:
    assert_nothing_differs(sessions.http(client, peer, "host before a bridge"))


@pytest.mark.parametrize(
    "client", ["python 1", "python 2", "typescript 1", "typescript 2"], ids="{} - everything".format
)
def test_a_host_on_stdio_reaches_a_server_over_http_sse(sessions: Sessions, client: str) -> None:
    assert_nothing_differs(sessions.sse(client, "host before a bridge"))


@pytest.mark.parametrize(("client", "peer"), PAIRS, ids=IDS)
def test_a_client_over_http_reaches_a_server_on_stdio(sessions: Sessions, client: str, peer: str) -> None:
    assert_nothing_differs(sessions.http(client, peer, "server behind a bridge"))


@pytest.mark.parametrize("revision", REVISIONS)
def test_what_holds_of_a_server_over_http_holds_of_it_behind_a_bridge(
    peers: Peers, revision: str, tmp_path: Path
) -> None:
    suite = Suite(peers.conformance(), peers.server("python 2")[0])
    scenarios = OF_SERVER[revision]
    command = example_server(suite.python)

    def directly(names: list[str]) -> Result:
        with server(command) as origin:
            return suite.of_server(f"{origin}/mcp", revision, names)

    with Bridge(tmp_path, "--poll-after", "0", command=[*command, "stdio"]) as before:
        through = suite.of_server(before.url, revision, scenarios)
        before.stop()
    assert lost(scenarios, through, directly) == []


@pytest.mark.parametrize("revision", REVISIONS)
def test_what_holds_of_a_client_over_http_holds_of_it_on_stdio_before_a_bridge(
    peers: Peers, revision: str, tmp_path: Path
) -> None:
    suite = Suite(peers.conformance(), peers.server("python 2")[0])
    through = suite.of_client(None, revision, OF_CLIENT[revision], bridge(tmp_path))
    scenarios = OF_CLIENT[revision]
    assert lost(scenarios, through, lambda names: suite.of_client(None, revision, names)) == []
