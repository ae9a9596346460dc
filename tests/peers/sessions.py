"""Sessions of real peers, run once directly and once through mcpproxy.

Several tests use the same session. It runs once per process, for the first test that needs it. What the
client got directly is shared by all processes of a run.
"""

import fcntl
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

import mcpproxy
from mcpproxy import Report
from tests.peers.fixtures import Peers
from tests.peers.processes import Proxy, run, server
from tests.relay.hosts import until_recorded

PAIRS: Final = [
    *((client, "everything") for client in Peers.CLIENTS),
    ("python 1", "python 1"),
    ("python 2 auto", "python 1"),
    ("typescript 2 auto", "python 1"),
    ("python 1", "python 2"),
    ("python 2 auto", "python 2"),
    ("typescript 1", "python 2"),
    ("typescript 2 auto", "python 2"),
]
"""Pairs of clients and servers: every client at least once, and every server with several clients."""


@dataclass(frozen=True)
class Session:
    """The results of the client directly and through mcpproxy, as JSON documents, and the recordings.

    ``traces`` are sorted by name; there are two if a client starts its server twice, the first time to find
    out the era. ``said`` are the lines that the proxy printed, none on stdio.
    """

    directly: str
    through: str
    traces: list[Path]
    said: list[str]

    @property
    def trace(self) -> Path:
        """The recording of the session itself."""
        return self.traces[-1]

    def reports(self) -> list[Report]:
        """Return the report of ``mcpproxy check`` on each trace."""
        return [mcpproxy.check(trace) for trace in self.traces]


class Sessions:
    """Runs sessions of the clients and servers in :class:`Peers`, by name."""

    def __init__(self, peers: Peers, folder: Callable[[], Path], shared: Path) -> None:
        self._peers = peers
        self._folder = folder
        self._shared = shared
        self._run: Final[dict[tuple[str, str, str], Session]] = {}

    def stdio(self, client: str, peer: str) -> Session:
        """Run a session on stdio: the client starts the server, or mcpproxy with the server."""
        return self._once("stdio", client, peer, self._stdio)

    def http(self, client: str, peer: str) -> Session:
        """Run a session over Streamable HTTP, directly and through a reverse proxy before the same server."""
        return self._once("http", client, peer, self._http)

    def sse(self, client: str) -> Session:
        """Run a session with the reference server over HTTP+SSE, the transport before Streamable HTTP."""
        return self._once("sse", client, "everything", self._sse)

    def _once(self, over: str, client: str, peer: str, session: Callable[[str, str], Session]) -> Session:
        key = over, client, peer
        if key not in self._run:
            self._run[key] = session(client, peer)
        return self._run[key]

    def _stdio(self, client: str, peer: str) -> Session:
        folder = self._folder()
        drive = [*self._peers.client(client, self._peers.plan(peer)), "--"]
        command = self._peers.server(peer)
        wrapper = [sys.executable, "-m", "mcpproxy", "--trace-dir", str(folder), "--"]
        directly = self._directly(f"stdio {client} {peer}", lambda: run([*drive, *command]))
        through = run([*drive, *wrapper, *command])
        until_recorded(folder)
        return Session(directly, through, sorted(folder.glob("*.jsonl")), [])

    def _http(self, client: str, peer: str) -> Session:
        drive = [*self._peers.client(client, self._peers.plan(peer, "http")), "--"]
        with server(self._peers.http_server(peer), {"PORT": "0"}) as origin:
            directly = self.directly_over_http(client, peer, f"{origin}/mcp")
            return self._over_http(drive, directly, f"{origin}/mcp")

    def _sse(self, client: str, peer: str) -> Session:
        drive = [*self._peers.client(client, self._peers.plan(peer)), "--"]
        with server(self._peers.http_server(peer, "sse"), {"PORT": "0"}) as origin:
            directly = self._directly(f"sse {client} {peer}", lambda: run([*drive, f"{origin}/sse"]))
            return self._over_http(drive, directly, origin, "--endpoint", "/sse")

    def directly_over_http(self, client: str, peer: str, url: str) -> str:
        """Return what a client gets from the server ``peer``, which runs at ``url``."""
        drive = [*self._peers.client(client, self._peers.plan(peer, "http")), "--", url]
        return self._directly(f"http {client} {peer}", lambda: run(drive))

    def _directly(self, key: str, session: Callable[[], str]) -> str:
        """Return what ``session`` returned in the first process that needed it."""
        with (self._shared / f"directly {key}".replace(" ", "-")).open("a+", encoding="utf-8") as kept:
            fcntl.flock(kept, fcntl.LOCK_EX)
            kept.seek(0)
            if not (said := kept.read()):
                said = session()
                kept.write(said)
                kept.flush()
            return said

    def _over_http(self, drive: list[str], directly: str, *options: str) -> Session:
        with Proxy(self._folder(), *options) as proxy:
            through = run([*drive, proxy.address])
            said = proxy.stop()
        return Session(directly, through, [proxy.trace], said)


@pytest.fixture(scope="session")
def sessions(peers: Peers, tmp_path_factory: pytest.TempPathFactory) -> Sessions:
    """Sessions of real peers, each run once."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    return Sessions(peers, lambda: tmp_path_factory.mktemp("session"), shared)
