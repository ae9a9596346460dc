"""The official conformance suite: what passes direct passes through the proxy.

A core set of it, for every run of the tests; ``python -m tests.peers.conformance`` has all.
"""

from pathlib import Path
from typing import Final

import pytest

from tests.peers.conformance import REVISIONS, Suite, example_server, lost
from tests.peers.fixtures import Peers
from tests.peers.processes import Proxy, server
from tests.relay.hosts import until_recorded

OF_SERVER: Final = {
    "2025-11-25": {
        "server-initialize": 3,
        "server-session-lifecycle": 3,
        "tools-call-sampling": 2,
        "server-sse-multiple-streams": 2,
        "server-sse-polling": 3,
        "dns-rebinding-protection": 2,
    },
    "2026-07-28": {
        "server-stateless": 26,
        "http-header-validation": 5,
        "input-required-result-multi-round": 4,
        "caching": 8,
        "dns-rebinding-protection": 2,
    },
}
"""Scenarios, and how many checks of each pass directly."""

OF_CLIENT: Final = {
    "2025-11-25": {"sse-retry": 3, "auth/metadata-default": 15, "auth/token-endpoint-auth-basic": 16},
    "2026-07-28": {"http-custom-headers": 5, "auth/basic-cimd": 10, "auth/scope-step-up": 14},
}


@pytest.fixture
def suite(peers: Peers) -> Suite:
    """The suite, with peers of the SDK that knows both eras."""
    return Suite(peers.conformance(), peers.server("python 2")[0])


@pytest.mark.parametrize("revision", REVISIONS)
def test_what_holds_of_a_server_holds_of_it_behind_the_proxy(
    suite: Suite, revision: str, tmp_path: Path
) -> None:
    scenarios = OF_SERVER[revision]
    with (
        server(example_server(suite.python)) as origin,
        Proxy(tmp_path, f"{origin}/mcp") as proxy,
    ):
        through = suite.of_server(proxy.address, revision, scenarios)
        proxy.stop()
        assert lost(scenarios, through, lambda names: suite.of_server(f"{origin}/mcp", revision, names)) == []


@pytest.mark.parametrize("revision", REVISIONS)
def test_what_holds_of_a_client_holds_of_it_with_the_proxy_before_its_server(
    suite: Suite, revision: str, tmp_path: Path
) -> None:
    scenarios = OF_CLIENT[revision]
    through = suite.of_client(tmp_path, revision, scenarios)
    assert lost(scenarios, through, lambda names: suite.of_client(None, revision, names)) == []
    until_recorded(tmp_path)
    traces = [trace.read_text(encoding="utf-8") for trace in tmp_path.glob("*.jsonl")]
    assert len(traces) >= len(scenarios)
    assert all('"type":"request"' in trace for trace in traces)
