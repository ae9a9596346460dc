"""A real ACP client talks to a real agent, once directly and once through mcpproxy: nothing may differ.

Both use the official SDK, and everything that the protocol version has: prompts, tool calls, permissions, a
cancelled turn, and in version 1 files, terminals and elicitations. Nothing may be found in such a session.
"""

import json
import sys
from pathlib import Path

import pytest

import mcpproxy
from tests.peers.fixtures import Peers
from tests.peers.processes import run
from tests.relay.hosts import until_recorded

HEARD = {
    "1": ["permission", "elicitation complete", "answered end_turn", "answered cancelled"],
    "2": ["permission", "state_update requires_action", "terminal_output_chunk", "state_update idle"],
}


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_real_agent_is_recorded_and_found_clean(peers: Peers, tmp_path: Path, version: str) -> None:
    drive, agent = [*peers.acp_client(version), "--"], peers.acp_agent(version)
    wrapper = [sys.executable, "-m", "mcpproxy", "--trace-dir", str(tmp_path), "--"]

    directly = json.loads(run([*drive, *agent]))
    through = json.loads(run([*drive, *wrapper, *agent]))

    # Updates and requests are handled concurrently, so the SDK may report them in another order.
    assert sorted(through) == sorted(directly)
    assert set(HEARD[version]) <= set(through)
    until_recorded(tmp_path)
    (trace,) = tmp_path.glob("*.jsonl")
    report = mcpproxy.check(trace)
    assert report.complete
    assert report.findings == ()
    assert report.frames > 40
