"""What the client that is there does with legal messages, said while the session goes on."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

import pytest

from mcpproxy.judge.session.frame import Finding
from mcpproxy.read import opening
from tests.relay.hosts import DEADLINE_S, HOME
from tests.relay.test_enforce import request
from tests.relay.test_http_enforce import SESSION, Proxied, Server, asked, server
from tests.test_pins import SERVER

__all__ = ["server"]

SCHEMA: Final = {"type": "object", "properties": {"ids[]": {"type": "string"}}}
TOOL: Final[dict[str, Any]] = {"name": "find", "description": "Find files.", "inputSchema": SCHEMA}
READY: Final = {"jsonrpc": "2.0", "method": "notifications/initialized"}

SAID: Final = (
    "Legal MCP. Claude Code 2.1.332 leaves out a tool with brackets in the name of an argument: "
    'tool "find" ("ids[]") (measured with 2.1.332, '
)


def opening_of(name: str, version: str) -> dict[str, Any]:
    about = {"name": name, "version": version}
    return request(0, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=about)


def said_until(stderr: IO[str], word: str) -> str:
    """Read the lines of stderr up to the first with the word."""
    line = ""
    while word not in line:
        line = stderr.readline()
        assert line
    return line


def of_hosts(trace: Path) -> list[str]:
    assert opening.await_finish(str(trace), DEADLINE_S)
    events = opening.open_trace(str(trace)).events()
    return [event.message for event in events if isinstance(event, Finding) and event.rule[:4] == "HOST"]


class Wrapped:
    """A server on stdio behind ``mcpproxy`` with options, and what its client says."""

    def __init__(self, folder: Path, *options: str, pages: list[list[dict[str, Any]]]) -> None:
        self.trace = folder / "t.jsonl"
        said = json.dumps({"stateful": True, "pages": pages})
        command = [*options, "--trace", str(self.trace), "--", sys.executable, "-c", SERVER, said]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mcpproxy", *command],
            env=HOME,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def ask(self, message: dict[str, Any]) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline()) if "id" in message else None

    def open(self, name: str, version: str) -> None:
        self.ask(opening_of(name, version))
        self.ask(READY)

    def leave(self) -> str:
        """End the session; what was still said on stderr."""
        return self.process.communicate(timeout=DEADLINE_S)[1]


def test_it_is_said_as_soon_as_it_is_seen_and_once(tmp_path: Path) -> None:
    wrapped = Wrapped(tmp_path, "--hosts", "seen", pages=[[TOOL]])
    wrapped.open("claude-code", "2.1.332")
    wrapped.ask(request(1, "tools/list"))
    assert wrapped.process.stderr is not None
    line = said_until(wrapped.process.stderr, "HOST-")
    assert line.startswith("mcpproxy: warning HOST-004 server, frame 5: " + SAID)
    wrapped.ask(request(2, "tools/list"))
    assert "HOST" not in wrapped.leave()
    [found] = of_hosts(wrapped.trace)
    assert found.startswith(SAID)


def test_a_page_that_the_client_did_not_read_is_said_at_the_end(tmp_path: Path) -> None:
    wrapped = Wrapped(tmp_path, "--hosts", "seen", pages=[[{**TOOL, "name": "a"}], [{**TOOL, "name": "b"}]])
    wrapped.open("gemini-cli-mcp-client", "0.61.0")
    wrapped.ask(request(1, "tools/list"))
    wrapped.leave()
    [found] = of_hosts(wrapped.trace)
    assert found.startswith("Legal MCP. Gemini CLI 0.61.0 reads the first page only: what comes after your")


@pytest.mark.parametrize(
    ("client", "options"),
    [
        (("claude-code", "2.1.332"), ()),
        (("claude-code", "2.1.331"), ("--hosts", "seen")),
        (("another", "2.1.332"), ("--hosts", "seen")),
    ],
)
def test_nothing_is_said_of_another_host_another_version_or_unasked(
    tmp_path: Path, client: tuple[str, str], options: tuple[str, ...]
) -> None:
    wrapped = Wrapped(tmp_path, *options, pages=[[TOOL]])
    wrapped.open(*client)
    wrapped.ask(request(1, "tools/list"))
    wrapped.leave()
    assert of_hosts(wrapped.trace) == []


@pytest.fixture
def proxied(tmp_path: Path, server: Server) -> Iterator[Proxied]:
    proxied = Proxied(tmp_path, server, "--hosts", "seen")
    yield proxied
    proxied.connection.close()
    proxied.process.kill()
    proxied.process.communicate(timeout=DEADLINE_S)


def test_it_is_said_over_http_too(server: Server, proxied: Proxied) -> None:
    server.tools.append(TOOL)
    assert proxied.post(opening_of("claude-code", "2.1.332")).status == 200
    assert proxied.post(READY, **SESSION).status == 202
    proxied.post(asked(1, "tools/list"), **SESSION)
    assert proxied.process.stderr is not None
    assert SAID in said_until(proxied.process.stderr, "HOST-004")
    proxied.post(asked(2, "tools/list"), **SESSION)
    told = [found for found in proxied.stop() if isinstance(found, Finding)]
    assert [found.rule for found in told if found.rule[:4] == "HOST"] == ["HOST-004"]
