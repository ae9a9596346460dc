"""The clients of SDKs that are tested, each with its command, and what is known to be wrong with it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.peers import install

HERE: Final = Path(__file__).parent


@dataclass(frozen=True)
class SdkClient:
    """A client: ``program`` returns its command but for the number of calls that it makes at once.

    ``broken`` are the rules that it breaks, by scenario, and ``given_up`` the scenarios in which it hangs;
    looked up in the specification and in its source.
    """

    program: Callable[[], Sequence[str]]
    broken: dict[str, str] = field(default_factory=dict[str, str])
    given_up: frozenset[str] = frozenset()

    def command(self, calls: int = 1) -> list[str]:
        """Return the command, installed if need be.

        Raises:
            PeerUnavailableError: the client cannot be installed.
        """
        return [*self.program(), str(calls)]


def _python(line: int) -> list[str]:
    return [str(install.python_with_sdk(line)), str(HERE / "python_sdk.py"), str(line)]


def _typescript(line: str) -> list[str]:
    return ["node", str(HERE / "typescript_sdk.mjs"), line, str(install.node_modules())]


def _of_pypi(name: str, script: str) -> list[str]:
    return [str(install.python_with_client(name)), str(HERE / script)]


def _ai_sdk() -> list[str]:
    modules = install.node_packages("client-ai-sdk", install.AI_SDK)
    return ["node", str(HERE / "ai_sdk.mjs"), str(modules)]


CLIENTS: Final = {
    # BaseSession._receive_loop answers what it cannot validate with INVALID_PARAMS.
    "python-1": SdkClient(lambda: _python(1), {"unknown-request": "RPC-020"}),
    "python-2": SdkClient(lambda: _python(2)),
    "typescript-1": SdkClient(lambda: _typescript("1")),
    "typescript-2": SdkClient(lambda: _typescript("2")),
    "typescript-2-auto": SdkClient(lambda: _typescript("2-auto")),
    "fastmcp": SdkClient(lambda: _of_pypi("fastmcp", "fastmcp_client.py")),
    "ai-sdk": SdkClient(_ai_sdk),
    # _await_response passes over every message but its answer, and waits 60 s for a server that has ended.
    # Its transport over HTTP has no MCP-Protocol-Version among its headers; an answer that came before in a
    # stream, or that is another message than the expected one, leaves it waiting.
    "chuk-mcp": SdkClient(
        lambda: _of_pypi("chuk-mcp", "chuk_mcp_client.py"),
        {"ordinary": "PROTO-008", "ping-in-call": "LIFE-004", "ping-in-list": "LIFE-004"},
        frozenset(
            {
                "exit-in-call",
                "cut-in-line",
                "no-result",
                "error-of-wrong-type",
                "answer-in-array",
                "wrong-id",
                "cut-line",
                "corrupt-answer",
                "closed-stdout",
                "mixed-answers",
                "duplicate-answer",
                "id-as-text",
                "answer-to-nobody",
                "error-without-id",
            }
        ),
    ),
}
"""By name. ``2-auto`` asks the server for its era first, as the clients of Python 2 and FastMCP do."""
