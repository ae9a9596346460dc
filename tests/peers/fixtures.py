"""The peers as pytest fixtures: commands of real clients and servers.

If a peer cannot be installed, the test is skipped; if the environment sets ``CI``, it fails.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import pytest

from tests.peers import install, plans

if TYPE_CHECKING:
    from tests.peers.object_store import ObjectStore

HERE: Final = Path(__file__).parent

T = TypeVar("T")


@dataclass(frozen=True)
class Peers:
    """Commands of real clients and servers by name, installed when first asked for."""

    CLIENTS = ("python 1", "python 2", "python 2 auto", "typescript 1", "typescript 2", "typescript 2 auto")
    SERVERS = ("everything", "python 1", "python 2", "typescript 1", "typescript 2")

    def client(self, name: str, plan: str) -> list[str]:
        """Return the command of a client, to which ``--`` and the server's command or URL are appended."""
        language, line, *auto = name.split()
        if language == "python":
            script = str(HERE / "sdk_client.py")
            return [str(_python(int(line))), script, "auto" if auto else "legacy", plan]
        return ["node", str(HERE / "ts_client.mjs"), "-".join((line, *auto)), str(_node_modules()), plan]

    def server(self, name: str) -> list[str]:
        """Return the command of a server on stdio."""
        if name == "everything":
            return self.reference_server(name, "stdio")
        language, line = name.split()
        if language == "typescript":
            return ["node", str(HERE / "ts_server.mjs"), line, str(_node_modules())]
        return [str(_python(int(line))), str(HERE / "sdk_server.py")]

    def reference_server(self, name: str, *arguments: str) -> list[str]:
        """Return the command of a reference server: everything, filesystem or memory."""
        package = _node_modules() / "@modelcontextprotocol" / f"server-{name}"
        return ["node", str(package / "dist" / "index.js"), *arguments]

    def http_server(self, name: str, mode: str = "streamableHttp") -> list[str]:
        """Return the command of a server over HTTP that prints ``port N``; run it with ``PORT=0``.

        The reference server also knows the mode ``sse``, the transport before Streamable HTTP.
        """
        if name == "everything":
            node, script, _ = self.server(name)
            return [node, "--import", str(HERE / "say_port.mjs"), script, mode]
        return [*self.server(name), "http"]

    def acp_client(self, version: str) -> list[str]:
        """Return the command of an ACP client, to which ``--`` and the agent's command are appended."""
        return ["node", str(HERE / "acp_client.mjs"), version, str(had(_acp()))]

    def acp_agent(self, version: str) -> list[str]:
        """Return the command of an ACP agent."""
        return ["node", str(HERE / "acp_agent.mjs"), version, str(had(_acp()))]

    def conformance(self) -> list[str]:
        """Return the command of the official conformance suite."""
        return had(_suite())

    def inspector(self) -> list[str]:
        """Return the command of the inspector's client, to which the server's command is appended."""
        package = had(_inspector()) / "@modelcontextprotocol" / "inspector"
        return ["node", str(package / "cli" / "build" / "cli.js"), "--cli"]

    def report_schemas(self) -> Path:
        """Return the folder of the schemas by which reports are validated."""
        return had(_schemas())

    def object_store(self, folder: Path) -> "ObjectStore":
        """Return a server of S3 that keeps its objects in ``folder``; start it."""
        from tests.peers.object_store import ObjectStore  # its client is of the extra ``fleet``

        return ObjectStore(had(_object_store()), folder)

    def weed(self) -> Path:
        """Return the program of SeaweedFS."""
        return had(_object_store())

    def recipe_validators(self) -> Path:
        """Return an interpreter with the validators of manifests and Compose files."""
        return had(_validators())

    def plan(self, server: str, over: str = "stdio") -> str:
        """Return the plan of a client for this server over ``stdio`` or ``http``."""
        if server != "everything":
            return plans.EXAMPLE
        return plans.EVERYTHING if over == "stdio" else plans.EVERYTHING_HTTP


@pytest.fixture(scope="session")
def peers() -> Peers:
    """Real clients and servers; the first test that needs one installs it."""
    return Peers()


def _python(line: int) -> Path:
    return had(_sdk(line))


def _node_modules() -> Path:
    return had(_node())


# Each is tried once per process, because an attempt without a network takes long.


@cache
def _sdk(line: int) -> Path | install.PeerUnavailableError:
    return _tried(lambda: install.python_with_sdk(line))


@cache
def _node() -> Path | install.PeerUnavailableError:
    return _tried(install.node_modules)


@cache
def _acp() -> Path | install.PeerUnavailableError:
    return _tried(install.acp_modules)


@cache
def page_tools() -> Path | install.PeerUnavailableError:
    """Return what the page is held to; pass it to ``had``."""
    return _tried(install.page_tools)


@cache
def _inspector() -> Path | install.PeerUnavailableError:
    return _tried(lambda: install.node_packages("inspector", install.INSPECTOR))


@cache
def _schemas() -> Path | install.PeerUnavailableError:
    return _tried(install.report_schemas)


@cache
def _suite() -> list[str] | install.PeerUnavailableError:
    return _tried(install.conformance_suite)


@cache
def _object_store() -> Path | install.PeerUnavailableError:
    return _tried(install.object_store)


@cache
def _validators() -> Path | install.PeerUnavailableError:
    return _tried(install.recipe_validators)


def _tried(get: Callable[[], T]) -> T | install.PeerUnavailableError:
    try:
        return get()
    except install.PeerUnavailableError as unavailable:
        return unavailable


def had(outcome: T | install.PeerUnavailableError) -> T:
    """Return the peer; if it is unavailable, skip the test, or fail it if ``CI`` is set."""
    if not isinstance(outcome, install.PeerUnavailableError):
        return outcome
    if os.environ.get("CI"):
        pytest.fail(f"a real peer is needed here: {outcome}")
    pytest.skip(f"a real peer is not to be had: {outcome}")
