"""A server is tested inside real hosts, offline, and what they make of one is what mcpproxy says."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from mcpproxy.read.prompt.words import call_words, tool_words
from mcpproxy.testing.mcp_model import McpModel
from tests.peers import install
from tests.peers.fixtures import had
from tests.plugin_project import SERVER
from tests.real_hosts.hosts import HOSTS, RealHost, Stage
from tests.real_hosts.played import played, started

FASTEST: Final = ("claude-code-2.1.197", "codex")
"""Those that need the least time, of different interfaces; ``python -m tests.real_hosts`` plays all."""

WEATHER: Final[list[Any]] = [
    {"call": "forecast", "arguments": {"city": "Oslo"}, "expect": {"contains": "Oslo: sunny"}},
    {
        "say": "Two more.",
        "calls": [
            {"call": "forecast", "arguments": {"city": "Lima"}, "expect": {"contains": "Lima: sunny"}},
            {"call": "forecast", "arguments": {"city": "Kyoto"}, "expect": {"contains": "Kyoto: sunny"}},
        ],
    },
    {"fail": 529},
    {"say": "It is sunny everywhere."},
]


@pytest.fixture(params=FASTEST)
def host(request: pytest.FixtureRequest) -> RealHost:
    found = HOSTS[request.param]
    had(_installed(found))
    return found


def _installed(host: RealHost) -> RealHost | install.PeerUnavailableError:
    try:
        host.program()
    except install.PeerUnavailableError as unavailable:
        return unavailable
    return host


def test_a_server_inside_a_host(host: RealHost, mcp_model: Callable[[Any], McpModel], tmp_path: Path) -> None:
    model = mcp_model(WEATHER)
    (tmp_path / "server.py").write_text(SERVER)
    ran = started(host, Stage(tmp_path, "weather", [sys.executable, str(tmp_path / "server.py")], model.url))
    assert ran.returncode == 0, ran.stdout
    assert [len(turn.results) for turn in model.turns] == [1, 2, 0, 0]
    assert "It is sunny everywhere." in ran.stdout


def test_what_a_host_makes_of_the_awkward_server(host: RealHost, tmp_path: Path) -> None:
    script = [{"call": "wind.speed", "arguments": {"at": "noon"}}, {"call": "forecast"}, {"say": "Done."}]
    ran = played(host, tmp_path, script)
    assert (ran.troubles, ran.errors) == ((), ())
    (server,) = ran.report.servers
    became = {way.match.tool.name: list(tool_words(way, server)) for way in server.tools}
    assert became["greet"] == []
    assert became["wind.speed"] == [f"named {server.prefix}wind_speed"]
    assert [list(call_words(way)) for way in server.calls] == [
        [],
        [
            "text lost (22 characters)",
            *(["image image/png, 78 B lost"] if host is HOSTS["codex"] else []),
            "structured content as text",
        ],
    ]
