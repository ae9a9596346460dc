"""Every client of ours sends the headers that a stateless request over HTTP has to have."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from mcpproxy.cli.main import main
from mcpproxy.judge.ruleset import ruleset
from mcpproxy.peers.fuzz.material import material
from mcpproxy.peers.fuzz.steps import FuzzStep
from mcpproxy.peers.fuzz.trial import Trial, TrialLimits
from mcpproxy.peers.replay.recording import load
from mcpproxy.peers.validate import connected_http
from mcpproxy.peers.validate.recordings import Target
from mcpproxy.protocol.meta_keys import CAPABILITIES_KEY, VERSION_KEY
from mcpproxy.read.view.view import open_view
from mcpproxy.show.ui.send import CallSender, recorded_call
from tests.bridge.ends import Host
from tests.replay.http_scripts import JSON, Tape
from tests.replay.scripts import C, S, ask, give, trace
from tests.replay.test_client_http import Answering, Server

VERSION: Final = "2026-07-28"
META: Final[dict[str, Any]] = {
    VERSION_KEY: VERSION,
    CAPABILITIES_KEY: {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
}
PROPERTIES: Final = {
    "thing": {"type": "string", "x-mcp-header": "Thing"},
    "count": {"type": "integer", "x-mcp-header": "Count"},
}
SCHEMA: Final = {"type": "object", "properties": PROPERTIES}
TOOLS: Final = {
    "resultType": "complete",
    "tools": [{"name": "weigh", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}}],
    "ttlMs": 0,
    "cacheScope": "private",
}
WEIGHED: Final[dict[str, Any]] = {"resultType": "complete", "content": []}
DISCOVERED: Final[dict[str, Any]] = {
    "resultType": "complete",
    "supportedVersions": [VERSION],
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "s", "version": "1"},
    "ttlMs": 0,
    "cacheScope": "private",
}
TASK: Final = {
    "resultType": "complete",
    "taskId": "t-1",
    "status": "cancelled",
    "createdAt": "2026-07-28T00:00:00Z",
    "lastUpdatedAt": "2026-07-28T00:00:00Z",
    "ttlMs": None,
}
ANSWERS: Final[dict[str, Any]] = {
    "server/discover": DISCOVERED,
    "tools/list": TOOLS,
    "tools/call": WEIGHED,
    "tasks/get": TASK,
}
WEIGH: Final[dict[str, Any]] = {"name": "weigh", "arguments": {"thing": "Öl", "count": 3}}
ASKED: Final = (
    ask(1, "tools/list", _meta=META),
    ask(2, "tools/call", **WEIGH, _meta=META),
    ask(3, "tasks/get", taskId="t-1", _meta=META),
)

EXPECTED: Final = {
    "tools/call": {
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        "mcp-protocol-version": VERSION,
        "mcp-method": "tools/call",
        "mcp-name": "weigh",
        "mcp-param-thing": "=?base64?w5Zs?=",
        "mcp-param-count": "3",
    },
    "tasks/get": {
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        "mcp-protocol-version": VERSION,
        "mcp-method": "tasks/get",
        "mcp-name": "t-1",
    },
}


def recorded_on_stdio(folder: Path) -> Path:
    lines = [(who, said) for each in ASKED for who, said in ((C, each), (S, answer_to(each)))]
    return trace(folder / "stdio.jsonl", lines)


def answer_to(asked: Any) -> Any:
    return give(asked["id"], **ANSWERS[asked["method"]])


def validate(url: str, folder: Path) -> None:
    async def talk() -> None:
        async with connected_http(url, revision=VERSION, trace=str(folder / "v.jsonl")) as client:
            await client.connect()
            await client.request("tools/list")
            await client.request("tools/call", dict(WEIGH))
            await client.request("tasks/get", {"taskId": "t-1"})

    asyncio.run(talk())


def replay_client(url: str, folder: Path) -> None:
    main(["replay", "client", str(recorded_on_stdio(folder)), url])


def bridge(url: str, folder: Path) -> None:
    with Host(folder, url) as host:
        for each in ASKED:
            host.say(json.dumps(each).encode())
            host.hear()
        assert host.close() == 0


def fuzz(url: str, folder: Path) -> None:
    """The trial sends no list of tools; what it needs is in the recording."""
    steps = [FuzzStep(json.dumps(each).encode(), (each["id"],), method=each["method"]) for each in ASKED[1:]]
    trial = Trial(Target(url=url), material(load(recorded_on_stdio(folder))), ruleset.load())
    asyncio.run(trial.run(steps, str(folder / "f.jsonl"), TrialLimits(), pings="end"))


def send_again(url: str, folder: Path) -> None:
    """The session in which a call is sent again has no list of tools either."""
    tape = Tape()
    for each in ASKED:
        tape.give(tape.request("POST", each, JSON), 200, answer_to(each), JSON)
    with open_view(str(tape.write(folder / "http.jsonl"))) as view:
        for call in view.calls("kind:request"):
            if call.method in EXPECTED:
                recorded = recorded_call(view, call.number)
                here = replace(recorded, header=replace(recorded.header, upstream=url))
                params = next(each["params"] for each in ASKED if each["method"] == call.method)
                asyncio.run(CallSender(str(folder)).send(here, params, confirmed=True))


@pytest.mark.parametrize("client", [validate, replay_client, bridge, fuzz, send_again])
def test_a_client_sends_what_a_stateless_request_needs(
    client: Callable[[str, Path], None], tmp_path: Path
) -> None:
    def answer(http: Answering, said: Any) -> None:
        http.give(200, answer_to(said))

    with Server(answer).running() as server:
        client(server.url, tmp_path)
    sent = {fields["mcp-method"]: fields for _, fields in server.requests if "mcp-method" in fields}
    for method, expected in EXPECTED.items():
        names = [name for name in sent[method] if name.startswith("mcp-") or name in expected]
        assert {name: sent[method][name] for name in names} == expected
