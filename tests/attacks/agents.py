"""Agents that ask about recordings: an answer for every call, and what a recording says is no instruction."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from tests.attacks.stage import Stage, Table, hold, is_line, read
from tests.cli import recordings

TABLE: Final = Table()

HELLO: Final = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "a", "version": "1"},
}


class Agent:
    """A client of ``mcpproxy mcp``."""

    def __init__(self, stage: Stage) -> None:
        self._process = stage.start("mcp")
        self._heard: list[bytes] = []
        self.send(json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO}))
        self.hear()
        self.send('{"jsonrpc":"2.0","method":"notifications/initialized"}')

    def send(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def hear(self) -> Any:
        if not self._heard:
            self._heard = read(self._process.stdout, is_line).splitlines()
        return json.loads(self._heard.pop(0))

    def call(self, tool: str, arguments: str = "{}") -> Any:
        params = f'{{"name":"{tool}","arguments":{arguments}}}'
        self.send(f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}')
        return self.hear()


@contextmanager
def _agent(stage: Stage, probes: int = 0) -> Generator[Agent]:
    state = stage.state / "mcpproxy"
    below = state / "validate" / "20261127T000000.000Z-validate-x-1"
    below.mkdir(parents=True, mode=0o700)
    recordings.write(state / "own.jsonl", recordings.FAULTY)
    later = json.dumps(json.loads(recordings.CLEAN[0]) | {"started_at": "2031-01-01T00:00:00.000000Z"})
    for number in range(probes):
        recordings.write(below / f"{number}.jsonl", (later, *recordings.CLEAN[1:]))
    yield Agent(stage)


@TABLE
def half_a_surrogate_pair(stage: Stage) -> str:
    """Every call gets an answer, also one whose text is no Unicode."""
    odd = (r'{"filter":"\ud800"}', r'{"recording":"\udc00"}', r'{"\ud800":1}')
    with _agent(stage) as agent:
        for id, arguments in enumerate((*odd, "{}"), 1):
            agent.send(
                f'{{"jsonrpc":"2.0","id":{id},"method":"tools/call",'
                f'"params":{{"name":"find_calls","arguments":{arguments}}}}}'
            )
        # Tools are called one after the other, so the last one is answered last.
        answered = [agent.hear()["id"]]
        while len(answered) <= len(odd) and answered[-1] <= len(odd):
            answered.append(agent.hear()["id"])
        hold(len(answered) > len(odd), f"{len(answered) - 1} of {len(odd)} calls are answered")
    return f"{len(odd)} answered"


@TABLE
def recorded_texts_for_agents(stage: Stage) -> str:
    """Each answer with recorded texts says that they are data."""
    asked = {
        **dict.fromkeys(("list_recordings", "list_runs", "describe_recording", "find_calls"), "{}"),
        "get_call": '{"call":1}',
        "get_frame": '{"frame":1}',
        "list_findings": "{}",
        "get_statistics": "{}",
        "get_context_cost": "{}",
        "compare_recordings": '{"before":"own","after":"own"}',
    }
    with _agent(stage) as agent:
        unmarked = [
            tool
            for tool, arguments in asked.items()
            if "untrusted" not in json.dumps(agent.call(tool, arguments))
        ]
        hold(not unmarked, f"{len(unmarked)} of {len(asked)} do not")
    return f"{len(asked)} say it"


@TABLE
def probes_before_recordings(stage: Stage) -> str:
    """Recordings of validate do not stand in the way of the user's own: the latest, and a failed call."""
    with _agent(stage, probes=30) as agent:
        latest = agent.call("describe_recording")["result"]["structuredContent"]["about"]["recording"]
        found = agent.call("find_calls", '{"filter":"rule:PROTO-007"}')["result"]["structuredContent"]
        hold(found["found"], f"no call found, {found.get('searched')} of {found.get('recordings')} searched")
        hold(latest == "own", f"the latest is {latest}")
    return "found"
