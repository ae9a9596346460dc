"""Real clients use every tool, over both transports; what our own judge says of the sessions."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import anyio
import httpx2
import jsonschema
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import TextContent

from mcpproxy.api import check, open_trace
from tests.agents.agent import ANSWER_BYTES, RECORDINGS, with_recordings
from tests.agents.conformance import FITTING, NEEDS_TOOLS_OF_THE_SUITE, command
from tests.peers.conformance import REVISIONS, Suite
from tests.peers.fixtures import Peers
from tests.peers.processes import ROOT, Process, run, server
from tests.relay.hosts import until_recorded

HTTP: Final = "everything-http-2025-06-18"
TOKEN: Final = "a-token-of-the-test-only"

CALLS: Final[dict[str, dict[str, Any]]] = {
    "list_recordings": {"limit": 2},
    "list_runs": {},
    "describe_recording": {"recording": HTTP},
    "find_calls": {"filter": "status:error"},
    "get_call": {"recording": HTTP, "call": 5},
    "get_frame": {"recording": HTTP, "frame": 5},
    "list_findings": {"recording": HTTP},
    "explain_rule": {"rule": "PROTO-007"},
    "compare_recordings": {"before": HTTP, "after": "everything-2025-11-25"},
    "get_statistics": {"recording": HTTP},
    "get_context_cost": {"recording": HTTP},
}
"""Every tool that is always there, but for ``get_prompt``: no recording of a model's interface ships."""


def mcp(*options: str) -> list[str]:
    return [sys.executable, "-m", "mcpproxy", "mcp", *options]


async def use(client: Client) -> None:
    """Call every tool, and hold the answers to their schemas."""
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert list(tools) == [*CALLS, "get_prompt"]
    for name, arguments in CALLS.items():
        annotations = tools[name].annotations
        assert annotations is not None
        assert annotations.read_only_hint
        assert len(tools[name].description or "") < 200
        result = await client.call_tool(name, arguments)
        assert not result.is_error
        assert len(result.model_dump_json(by_alias=True).encode()) < ANSWER_BYTES
        jsonschema.validate(result.structured_content, tools[name].output_schema or {})
        (block,) = result.content
        assert isinstance(block, TextContent)
        assert json.loads(block.text) == result.structured_content


async def use_wrongly(client: Client) -> None:
    """Ask for what is not there."""
    refused = await client.call_tool("get_call", {"call": 1, "recording": "nowhere"})
    assert refused.is_error
    assert refused.structured_content is None
    with pytest.raises(MCPError, match="Unknown tool"):
        await client.call_tool("delete_recording", {})


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_python_sdk_on_stdio(tmp_path: Path, mode: str) -> None:
    trace = tmp_path / "session.jsonl"
    wrapped = ["-m", "mcpproxy", "--trace", str(trace), "--", *mcp(str(with_recordings(tmp_path / "f")))]

    async def talk() -> None:
        parameters = StdioServerParameters(
            command=sys.executable, args=wrapped, cwd=ROOT, env=dict(os.environ)
        )
        async with Client(parameters, mode=mode) as client:
            await use(client)

    with anyio.from_thread.start_blocking_portal() as portal:
        portal.call(talk)
    until_recorded(trace)
    assert open_trace(trace).complete
    assert check(trace).findings == ()


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_python_sdk_over_http(mode: str) -> None:
    process = Process(mcp(str(RECORDINGS), "--http", "127.0.0.1:0"), {"MCPPROXY_MCP_TOKEN": TOKEN})

    async def talk(url: str) -> None:
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}) as http,
            Client(streamable_http_client(url, http_client=http), mode=mode) as client,
        ):
            await use(client)
            await use_wrongly(client)

    try:
        url = process.expect(r"(http://\S+)")
        with anyio.from_thread.start_blocking_portal() as portal:
            portal.call(talk, url)
        process.stop()
        assert process.said == [f"{url}\n"]
    finally:
        process.kill()


def test_the_command_line_of_the_inspector(peers: Peers) -> None:
    inspector = [*peers.inspector(), *mcp(str(RECORDINGS))]
    tools = json.loads(run([*inspector, "--method", "tools/list"]))["tools"]
    assert [tool["name"] for tool in tools] == [*CALLS, "get_prompt"]
    # With a text and a number; other clients use all tools.
    given = [word for key, value in CALLS["get_call"].items() for word in ("--tool-arg", f"{key}={value}")]
    result = json.loads(run([*inspector, "--method", "tools/call", "--tool-name", "get_call", *given]))
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]


@pytest.mark.parametrize("name", ["python 1", "python 2", "typescript 1", "typescript 2 auto"])
def test_other_clients_use_every_tool(peers: Peers, name: str) -> None:
    calls = [{"do": "call", "tool": tool, "arguments": arguments} for tool, arguments in CALLS.items()]
    plan = json.dumps([{"do": "list tools"}, *calls])
    said = json.loads(run([*peers.client(name, plan), "--", *mcp(str(RECORDINGS))]))
    listed, *answers = [step["gave"] for step in said["steps"]]
    assert [tool["name"] for tool in listed["tools"]] == [*CALLS, "get_prompt"]
    for answer in answers:
        result = answer["result"]
        assert not result.get("isError")
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        assert len(json.dumps(result, ensure_ascii=False).encode()) < ANSWER_BYTES


def not_passed(said: str) -> list[str]:
    """Return the lines of checks that a server did not pass."""
    assert " passed" in said
    return [line for line in said.splitlines() if line.split()[:1] in (["FAIL"], ["warn"])]


def test_our_own_validation_finds_nothing(tmp_path: Path) -> None:
    env = {"XDG_STATE_HOME": str(tmp_path)}
    validate = [sys.executable, "-m", "mcpproxy", "validate", "--strict"]
    said = run([*validate, "--", *mcp(str(RECORDINGS))], env, codes=(0, 1))
    assert not_passed(said) == []


def test_our_own_validation_finds_nothing_over_http(tmp_path: Path) -> None:
    process = Process(mcp(str(RECORDINGS), "--http", "127.0.0.1:0"), {"MCPPROXY_MCP_TOKEN": TOKEN})
    try:
        url = process.expect(r"(http://\S+)")
        header = f"Authorization: Bearer {TOKEN}"
        validate = [sys.executable, "-m", "mcpproxy", "validate", "--strict", url, "--header", header]
        said = run(validate, {"XDG_STATE_HOME": str(tmp_path)}, codes=(0, 1))
        assert not_passed(said) == []
    finally:
        process.kill()


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_scenarios_of_the_official_suite_that_fit_pass(peers: Peers, revision: str) -> None:
    suite = Suite(peers.conformance(), sys.executable)
    with server(command(RECORDINGS)) as origin:
        result = suite.of_server(f"{origin}/mcp", revision, FITTING[revision])
    assert [name for name in FITTING[revision] if not result.passed(name)] == []
    broken = {check for (_, check), held in result.held.items() if not held}
    assert broken <= NEEDS_TOOLS_OF_THE_SUITE


def test_a_server_is_validated_only_if_the_user_allows_it(tmp_path: Path) -> None:
    demo = [sys.executable, "-m", "mcpproxy.demo.server"]

    async def talk() -> None:
        env = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
        options = mcp("--allow-validate")
        parameters = StdioServerParameters(command=options[0], args=options[1:], cwd=ROOT, env=env)
        async with Client(parameters) as client:
            (tool,) = [t for t in (await client.list_tools()).tools if t.name == "validate_server"]
            assert tool.annotations is not None
            assert not tool.annotations.read_only_hint
            answer = await client.call_tool("validate_server", {"command": demo})
            assert not answer.is_error
            found: dict[str, Any] = answer.structured_content or {}
            assert found["verdict"] == "invalid"
            check = found["checks"][0]
            about = await client.call_tool("describe_recording", {"recording": check["recording"]})
            assert not about.is_error
            for wrong in ({}, {"command": demo, "url": "http://127.0.0.1:1"}, {"url": "file:///etc/passwd"}):
                assert (await client.call_tool("validate_server", wrong)).is_error
            gone = await client.call_tool("validate_server", {"command": [str(tmp_path / "no-such-command")]})
            assert gone.is_error

    with anyio.from_thread.start_blocking_portal() as portal:
        portal.call(talk)


def test_the_server_ends_with_its_client() -> None:
    ended = subprocess.run(mcp(str(RECORDINGS)), input=b"", cwd=ROOT, capture_output=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")


class KilledClient:
    """A client on the pipes of a server. ``leave`` does what the end of its process does."""

    def __init__(self, *options: str, env: dict[str, str]) -> None:
        pipe = subprocess.PIPE
        self._server = subprocess.Popen(
            mcp(*options), cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, env={**os.environ, **env}
        )
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        assert self._server.stderr is not None
        self._in, self._out, self._err = self._server.stdin, self._server.stdout, self._server.stderr
        about = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "c", "version": "1"},
        }
        self._say({"id": 0, "method": "initialize", "params": about})
        self._out.readline()
        self._say({"method": "notifications/initialized"})

    def _say(self, message: dict[str, Any]) -> None:
        self._in.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._in.flush()

    def calls(self, id: int, name: str, **arguments: Any) -> None:
        self._say({"id": id, "method": "tools/call", "params": {"name": name, "arguments": arguments}})

    def leave(self) -> tuple[int, bytes]:
        """Return the exit code of the server and what it wrote to stderr."""
        try:
            self._out.close()
            self._in.close()
            said = self._err.read()
            self._err.close()
            return self._server.wait(60), said
        finally:
            self._server.kill()


@pytest.mark.skipif(os.name != "posix", reason="needs pipes that break")
def test_a_client_may_leave_before_its_answers() -> None:
    client = KilledClient(str(RECORDINGS), env={})
    for number in range(1, 30):
        client.calls(number, "find_calls")
    assert client.leave() == (0, b"")


@pytest.mark.skipif(os.name != "posix", reason="the server under test writes to a FIFO")
def test_a_server_under_test_ends_with_the_client(tmp_path: Path) -> None:
    fifo = tmp_path / "started"
    os.mkfifo(fifo)
    silent = "import os, sys, time; held = open(sys.argv[1], 'wb', 0); held.write(b'x'); time.sleep(600)"
    client = KilledClient("--allow-validate", env={"XDG_STATE_HOME": str(tmp_path)})
    client.calls(1, "validate_server", command=[sys.executable, "-c", silent, str(fifo)])
    with fifo.open("rb") as started:  # it has an end when the server under test is gone
        assert started.read(1) == b"x"
        assert client.leave() == (0, b"")
        started.read()
