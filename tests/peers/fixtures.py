"""The peers as pytest fixtures: commands of real clients and servers.

A peer that cannot be had skips the test on a developer's machine and fails it where ``CI`` is set.
"""

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.peers import install, plans

HERE: Final = Path(__file__).parent


@dataclass(frozen=True)
class Peers:
    """Commands of real clients and servers by name, installed when first asked for."""

    CLIENTS = ("python 1", "python 2", "python 2 auto", "typescript 1", "typescript 2", "typescript 2 auto")
    SERVERS = ("everything", "python 1", "python 2")

    def client(self, name: str, plan: str) -> list[str]:
        """The command of a client; ``--`` and the server's command or URL are to follow it."""
        language, line, *auto = name.split()
        if language == "python":
            script = str(HERE / "sdk_client.py")
            return [str(_python(int(line))), script, "auto" if auto else "legacy", plan]
        return ["node", str(HERE / "ts_client.mjs"), "-".join((line, *auto)), str(_node_modules()), plan]

    def server(self, name: str) -> list[str]:
        """The command of a server that speaks on stdio."""
        if name == "everything":
            package = _node_modules() / "@modelcontextprotocol" / "server-everything"
            return ["node", str(package / "dist" / "index.js"), "stdio"]
        return [str(_python(int(name.split()[1]))), str(HERE / "sdk_server.py")]

    def http_server(self, name: str, mode: str = "streamableHttp") -> list[str]:
        """The command of a server on HTTP that says ``port N``; it wants ``PORT=0`` in its environment.

        The reference server also knows the mode ``sse``, the transport before Streamable HTTP.
        """
        if name == "everything":
            node, script, _ = self.server(name)
            return [node, "--import", str(HERE / "say_port.mjs"), script, mode]
        return [*self.server(name), "http"]

    def plan(self, server: str) -> str:
        """What a client does with this server."""
        return plans.EVERYTHING if server == "everything" else plans.EXAMPLE


@pytest.fixture(scope="session")
def peers() -> Peers:
    """Real clients and servers; the first test that needs one installs it."""
    return Peers()


def _python(line: int) -> Path:
    return had(_outcome("python", line))


def _node_modules() -> Path:
    return had(_outcome("node", 0))


@cache
def _outcome(kind: str, line: int) -> Path | install.PeerUnavailableError:
    """Tried once per process: without a network each attempt costs a while."""
    try:
        return install.python_with_sdk(line) if kind == "python" else install.node_modules()
    except install.PeerUnavailableError as unavailable:
        return unavailable


def had(outcome: Path | install.PeerUnavailableError) -> Path:
    """The peer, or the end of the test that wanted it."""
    if isinstance(outcome, Path):
        return outcome
    if os.environ.get("CI"):
        pytest.fail(f"a real peer is needed here: {outcome}")
    pytest.skip(f"a real peer is not to be had: {outcome}")
