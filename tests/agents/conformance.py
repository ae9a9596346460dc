"""The official conformance suite against ``mcpproxy mcp``: ``python -m tests.agents.conformance``.

The suite sends no token, so ``serve`` starts the server without the lock that needs one. Most scenarios want
tools, resources and prompts of the suite's own; only those of ``FITTING`` fit every server.
"""

import sys
from pathlib import Path
from typing import Final

from mcpproxy.show.agents import http
from mcpproxy.show.agents.recording_library import RecordingLibrary
from mcpproxy.show.agents.recording_server import RecordingServer
from mcpproxy.show.ui.page_server import PageServer
from tests.peers import install
from tests.peers.conformance import REVISIONS, Suite
from tests.peers.processes import ROOT, server

FITTING: Final = {
    "2025-11-25": (
        "server-initialize",
        "ping",
        "tools-list",
        "server-session-lifecycle",
        "dns-rebinding-protection",
    ),
    "2026-07-28": ("server-stateless", "http-header-validation", "tools-list", "dns-rebinding-protection"),
}

NEEDS_TOOLS_OF_THE_SUITE: Final = {
    "sep-2575-server-rejects-undeclared-capability",
    "sep-2575-missing-capability-http-400",
    "sep-2575-http-server-no-independent-requests-on-stream",
    "sep-2575-server-no-log-without-loglevel",
}
"""The checks of these scenarios that call tools of the suite's own."""


def serve(folder: str) -> None:
    """Serve the recordings in ``folder``; print the port."""
    page = PageServer("127.0.0.1", 0)
    sys.stdout.write(f"port {page.port}\n")
    sys.stdout.flush()
    page.run(http.app(RecordingServer(RecordingLibrary(folder))))


def command(folder: Path) -> list[str]:
    """Return the command of ``serve``."""
    return [sys.executable, "-m", "tests.agents.conformance", "serve", str(folder)]


def main() -> None:
    suite = Suite(install.conformance_suite(), sys.executable)
    with server(command(ROOT / "recordings")) as origin:
        for revision in REVISIONS:
            scenarios = suite.scenarios("server", revision)
            result = suite.of_server(f"{origin}/mcp", revision, scenarios)
            sys.stdout.write(f"\n### {revision}\n\n| scenario | held | not held |\n| --- | --- | --- |\n")
            for scenario in scenarios:
                broken = [check for (one, check), held in result.held.items() if one == scenario and not held]
                count = f"{result.passed(scenario)} of {result.total(scenario)}"
                sys.stdout.write(f"| {scenario} | {count} | {', '.join(broken)} |\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(sys.argv[2])
    else:
        main()
