"""Sessions of real peers, run directly and in every way through mcpproxy.

Several tests use the same sessions. What a pair of peers says over one transport is run once per process, by
one client process, for the first test that needs it. ``tests/schedule.py`` gives a pair to one process.

A run of the tests has the pairs of ``GATE``. ``python -m tests.peers.sessions [ARGUMENT...]`` runs pytest
with the tests of real pairs, and ``EVERY_PAIR``.
"""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import pytest

import mcpproxy
from mcpproxy import Report
from tests.bridge.ends import Bridge, bridge
from tests.peers.fixtures import Peers
from tests.peers.processes import Proxy, run, server
from tests.relay.hosts import until_recorded

GATE: Final = (
    ("python 1", "everything"),
    ("python 2", "everything"),
    ("typescript 2", "everything"),
    ("typescript 2 auto", "everything"),
    ("python 2 auto", "python 1"),
    ("typescript 1", "python 2"),
    ("python 2 auto", "python 2"),
    ("typescript 2 auto", "python 2"),
)
"""Pairs of clients and servers: every client and every server at least once, in each era that both know."""

EVERY_PAIR: Final = (
    *((client, "everything") for client in Peers.CLIENTS),
    ("python 1", "python 1"),
    ("python 2 auto", "python 1"),
    ("typescript 2 auto", "python 1"),
    ("python 1", "python 2"),
    ("python 2 auto", "python 2"),
    ("typescript 1", "python 2"),
    ("typescript 2 auto", "python 2"),
)
"""Pairs of clients and servers: every client at least once, and every server with several clients."""

_WANTED: Final = "MCPPROXY_TESTS_EVERY_PAIR"
"""The variable of the environment that asks for them; workers of pytest inherit it."""

PAIRS: Final = EVERY_PAIR if os.environ.get(_WANTED) else GATE

FILES: Final = ("tests/test_real_sessions.py", "tests/test_real_http.py", "tests/bridge/test_real.py")


@dataclass(frozen=True)
class Session:
    """The results of the client directly and through mcpproxy, as JSON documents.

    ``folder`` has the recordings. ``said`` are the lines that the proxy printed, none on stdio.
    """

    directly: str
    through: str
    folder: Path
    said: list[str]

    @property
    def traces(self) -> list[Path]:
        """The recordings by name; there are two if a client starts its server twice, the first time to find
        out the era."""
        return sorted(self.folder.glob("*.jsonl"))

    @property
    def trace(self) -> Path:
        """The recording of the session itself."""
        return self.traces[-1]

    def reports(self) -> list[Report]:
        """Return the report of ``mcpproxy check`` on each trace."""
        return [mcpproxy.check(trace) for trace in self.traces]


Way = Literal["proxy", "host before a bridge", "server behind a bridge"]


class Sessions:
    """Runs sessions of the clients and servers in :class:`Peers`, by name."""

    def __init__(self, peers: Peers, folder: Callable[[], Path]) -> None:
        self._peers = peers
        self._folder = folder
        self._run: Final[dict[tuple[str, str, str], dict[Way, Session]]] = {}

    def stdio(self, client: str, peer: str) -> Session:
        """A session on stdio: the client starts the server, or mcpproxy with the server."""
        return self._way("proxy", "stdio", client, peer, self._stdio)

    def http(self, client: str, peer: str, way: Way = "proxy") -> Session:
        """A session over Streamable HTTP, directly, and through one of three: a reverse proxy, a bridge that
        the client starts, or a bridge that starts the server on stdio."""
        return self._way(way, "http", client, peer, self._http)

    def sse(self, client: str, way: Way = "proxy") -> Session:
        """A session with the reference server over HTTP+SSE, the transport before Streamable HTTP."""
        return self._way(way, "sse", client, "everything", self._sse)

    def _way(
        self, way: Way, over: str, client: str, peer: str, play: Callable[[str, str], dict[Way, Session]]
    ) -> Session:
        key = over, client, peer
        if key not in self._run:
            self._run[key] = play(client, peer)
        session = self._run[key][way]
        for document in (session.directly, session.through):
            got = json.loads(document)
            assert "failed" not in got, got["failed"]
        return session

    def _stdio(self, client: str, peer: str) -> dict[Way, Session]:
        folder = self._folder()
        command = self._peers.server(peer)
        wrapped = [sys.executable, "-m", "mcpproxy", "--trace-dir", str(folder), "--", *command]
        drive = self._peers.client(client, self._peers.plan(peer))
        directly, through = told(drive, command, wrapped)
        until_recorded(folder)
        return {"proxy": Session(directly, through, folder, [])}

    def _http(self, client: str, peer: str) -> dict[Way, Session]:
        drive = self._peers.client(client, self._peers.plan(peer, "http"))
        proxied, before, behind = self._folder(), self._folder(), self._folder()
        with (
            server(self._peers.http_server(peer), {"PORT": "0"}) as origin,
            Proxy(proxied, url := f"{origin}/mcp") as proxy,
            Bridge(behind, command=(command := self._peers.server(peer))) as bridged,
        ):
            # The reference server says other things over HTTP than on stdio.
            alone = [command] if peer == "everything" else []
            ways = ([proxy.address], bridge(before, url), [bridged.url])
            directly, *through = told(drive, [url], *ways, *alone)
            said = proxy.stop()
            bridged.stop()
        return {
            "proxy": Session(directly, through[0], proxied, said),
            "host before a bridge": Session(directly, through[1], before, []),
            "server behind a bridge": Session(through[3] if alone else directly, through[2], behind, []),
        }

    def _sse(self, client: str, peer: str) -> dict[Way, Session]:
        drive = self._peers.client(client, self._peers.plan(peer))
        proxied, before = self._folder(), self._folder()
        with (
            server(self._peers.http_server(peer, "sse"), {"PORT": "0"}) as origin,
            Proxy(proxied, origin, "--endpoint", "/sse") as proxy,
        ):
            url = f"{origin}/sse"
            directly, through, bridged = told(drive, [url], [proxy.address], bridge(before, url))
            said = proxy.stop()
        return {
            "proxy": Session(directly, through, proxied, said),
            "host before a bridge": Session(directly, bridged, before, []),
        }


def told(drive: list[str], *servers: list[str]) -> list[str]:
    """Run the plan of a client against each server, by one process; return what the client got from each."""
    words = [word for server in servers for word in ("++", *server)][1:]
    return run([*drive, "--", *words], codes=(0, 1)).removesuffix("\n").split("\n")


@pytest.fixture(scope="session")
def sessions(peers: Peers, tmp_path_factory: pytest.TempPathFactory) -> Sessions:
    """Sessions of real peers, each run once."""
    return Sessions(peers, lambda: tmp_path_factory.mktemp("session"))


if __name__ == "__main__":
    os.environ[_WANTED] = "1"
    os.execv(sys.executable, [sys.executable, "-m", "pytest", *FILES, *sys.argv[1:]])
